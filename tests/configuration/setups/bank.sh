#!/bin/bash -x
# A script that was changed often: some lines are refused, and the broker holds what is left.
export B=--broker-addr=mq.bank.example:5671
for x in "payments topic" "postings direct" "fraud headers" "notices fanout" "dead fanout" "rates topic"; do
  set -- $x
done
qpid-config $B add exchange topic payments
qpid-config $B add exchange direct postings
qpid-config $B add exchange headers fraud
qpid-config $B add exchange fanout notices
qpid-config $B add exchange fanout dead
qpid-config $B add exchange topic rates
qpid-config $B add exchange xml contracts
for n in 01 02 03 04 05 06 07 08 09 10; do
  qpid-config $B add queue branch.$n --max-queue-count 300
  qpid-config $B bind payments branch.$n "pay.$n.*"
done
for kind in sepa swift card cash; do
  qpid-config $B add queue post.$kind --flow-stop-count 10 --flow-resume-count 5 --max-queue-count 20
  qpid-config $B bind postings post.$kind $kind
done
qpid-config $B add queue suspicious
qpid-config $B bind fraud suspicious big all size=big
qpid-config $B bind fraud suspicious no-condition
qpid-config $B add queue mobile ; qpid-config $B add queue letters
qpid-config $B bind notices mobile ; qpid-config $B bind notices letters
qpid-config $B add queue dead.payments --limit-policy=ring --max-queue-count=1000
qpid-config $B bind dead dead.payments
qpid-config $B add queue rates.eur --lvq-key pair
qpid-config $B bind rates rates.eur "eur.#"
qpid-config $B add queue rates.usd --lvq-key pair
qpid-config $B bind rates rates.usd "usd.#"
qpid-config $B add queue oddly --max-queue-count 100 --flow-stop-count 50
qpid-config $B add queue oddly --cluster-durable
qpid-config $B add queue branch.01
qpid-config $B bind paymants branch.01 'pay.#'
qpid-config $B del queue letters
qpid-config $B unbind payments branch.10 'pay.10.*'
qpid-config $B add queue temporary
qpid-config $B del queue temporary --force
