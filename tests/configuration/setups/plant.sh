#!/usr/bin/env bash
set -u

# Six exchanges and twenty queues of a plant.
BROKER="${QPID_URL:-localhost:5672}"   # where it is
QC="/usr/bin/qpid-config -b $BROKER --sasl-mechanism=ANONYMOUS"
LIMIT=500

for name in raw clean; do
    $QC add exchange topic plant.$name --durable
done
for name in alarms commands; do $QC add exchange direct "plant.${name}"; done
$QC add exchange fanout plant.all ; $QC add exchange fanout plant.lost

for line in {1..4}
do
    # each line has a queue of readings, of alarms, of commands
    $QC add queue line-$line.readings \
        --max-queue-count=$LIMIT \
        --flow-stop-count=400 --flow-resume-count=300 \
        --alternate-exchange plant.lost
    $QC add queue line-$line.alarms --max-queue-count=50
    $QC add queue line-$line.commands
    $QC bind plant.raw line-$line.readings "line.$line.#"
    $QC bind plant.alarms line-$line.alarms $line
    $QC bind plant.commands line-$line.commands line-$line && echo "line $line is there"
done

sudo -u qpidd $QC add queue lost --limit-policy ring --max-queue-count=$LIMIT
$QC bind plant.lost lost
$QC add queue archive --max-queue-size=1000000000 --flow-stop-size=0
$QC bind plant.raw archive '#'
$QC add queue dashboard --limit-policy=ring --max-queue-count=20
$QC bind plant.clean dashboard "line.*.speed"
$QC add queue shift.early; $QC add queue shift.late; $QC add queue shift.night
for shift in early late night; do $QC bind plant.all shift.$shift; done
$QC add queue wear --group-header machine --shared-groups
$QC add queue 'energy $' # a strange name
$QC queues > /dev/null 2>&1 || exit 1
