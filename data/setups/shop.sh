#!/bin/sh
# Queues of a web shop, one line each, as they grew.
qpid-config -a mq1.shop.example:5672 add exchange topic shop.events --durable
qpid-config -a mq1.shop.example:5672 add exchange direct shop.commands --durable
qpid-config -a mq1.shop.example:5672 add exchange fanout shop.broadcast
qpid-config -a mq1.shop.example:5672 add exchange headers shop.audit
qpid-config -a mq1.shop.example:5672 add exchange fanout shop.dead --durable
qpid-config -a mq1.shop.example:5672 add exchange topic shop.metrics --sequence

qpid-config -a mq1.shop.example:5672 add queue dead-letters --max-queue-count 100000 --limit-policy ring
qpid-config -a mq1.shop.example:5672 add queue orders --durable --max-queue-count=5000 --max-queue-size=52428800 --flow-stop-count=4000 --flow-resume-count=3000 --alternate-exchange shop.dead
qpid-config -a mq1.shop.example:5672 add queue orders.eu --max-queue-count 2000 --alternate-exchange shop.dead
qpid-config -a mq1.shop.example:5672 add queue orders.us --max-queue-count 2000 --alternate-exchange shop.dead
qpid-config -a mq1.shop.example:5672 add queue invoices --max-queue-size 20000000 --flow-stop-size 15000000 --flow-resume-size 10000000
qpid-config -a mq1.shop.example:5672 add queue invoices.retry
qpid-config -a mq1.shop.example:5672 add queue carts --group-header cart --shared-groups --max-queue-count 1000
qpid-config -a mq1.shop.example:5672 add queue stock --lvq-key sku
qpid-config -a mq1.shop.example:5672 add queue prices --limit-policy=ring --max-queue-count=50
qpid-config -a mq1.shop.example:5672 add queue mail --flow-stop-count 0 --flow-stop-size 0
qpid-config -a mq1.shop.example:5672 add queue sms --max-queue-count 100 --flow-stop-count 90 --flow-resume-count 10
qpid-config -a mq1.shop.example:5672 add queue push
qpid-config -a mq1.shop.example:5672 add queue search-index --argument qpid.alert_count=500 --max-queue-count 1000
qpid-config -a mq1.shop.example:5672 add queue reports
qpid-config -a mq1.shop.example:5672 add queue audit.all
qpid-config -a mq1.shop.example:5672 add queue audit.payments
qpid-config -a mq1.shop.example:5672 add queue metrics.cpu --limit-policy ring --max-queue-count 10
qpid-config -a mq1.shop.example:5672 add queue metrics.all --limit-policy ring --max-queue-count 10
qpid-config -a mq1.shop.example:5672 add queue backups --argument qpid.priorities=10
qpid-config -a mq1.shop.example:5672 add queue refunds

qpid-config -a mq1.shop.example:5672 bind shop.events orders order.#
qpid-config -a mq1.shop.example:5672 bind shop.events orders.eu order.eu.*
qpid-config -a mq1.shop.example:5672 bind shop.events orders.us order.us.*
qpid-config -a mq1.shop.example:5672 bind shop.commands refunds refund
qpid-config -a mq1.shop.example:5672 bind shop.broadcast mail
qpid-config -a mq1.shop.example:5672 bind shop.broadcast sms
qpid-config -a mq1.shop.example:5672 bind shop.broadcast push
qpid-config -a mq1.shop.example:5672 bind shop.audit audit.payments payments all kind=payment country=de
qpid-config -a mq1.shop.example:5672 bind shop.audit audit.all any any kind=payment kind=order
qpid-config -a mq1.shop.example:5672 bind shop.dead dead-letters
qpid-config -a mq1.shop.example:5672 bind shop.metrics metrics.all #
qpid-config -a mq1.shop.example:5672 bind shop.metrics metrics.cpu '*.cpu'
