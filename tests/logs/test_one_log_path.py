"""The two players and the two audits of client logs, held against each other row by row.

``qflow.trace`` plays a whole log and audits what clients saw; ``qflow.spark`` plays row by row and audits
what the broker did.  On every recorded log, as it is and doctored, both must lead the engine to the same
events and the same state.  :data:`SETTLED` lists the differences, each with the rule that decides it.
"""

import random
from collections import Counter
from functools import cache

import pytest
from recordings import WORKLOADS, load

from qflow.broker.snapshot import only_counts
from qflow.spark import memory
from qflow.spark.component_log import component_log
from qflow.spark.player import LogPlayer
from qflow.trace import ClientLog, LogRow
from qflow.trace.replay import _Replayer
from qflow.workload import Workload

NAMES = sorted(path.name.split(".")[0] for path in WORKLOADS.glob("*.csv.gz"))
PLAYED = ("transfer", "deliver", "accept", "release", "error")

SETTLED = {
    # The one player looks ahead in the log, the other takes what the log has not shown.  Recordings decide: in
    # bytes-and-count the broker stopped 72 times, without looking ahead it is 71, with it 67.
    "surplus": "what leaves a window for a settlement that the engine has not delivered",
    # Row by row none was known, and the queue stayed ON.
    "reject": "a rejected message is dequeued (CN-16), and any dequeue counts for flow control (FC-20)",
    # Only one of the two counts it.
    "dead": "a settlement for a consumer whose session ended changes nothing, whoever has the message (CN-13)",
}


@cache
def recorded(name):
    if name.startswith("fleet"):
        pytest.importorskip("pyarrow")
        return component_log(name, fleet_lake()[name])[::-1]
    return load(name)


@cache
def fleet_lake():
    rows = ClientLog.load(WORKLOADS / "fleet.parquet").rows
    return memory.lake_of("fleet", Workload.load(WORKLOADS / "fleet.json"), rows)


# Doctored logs


def changed(rows, chance, choose, make):
    """Replace one row in fifty of those that are chosen by others."""
    out = []
    for row in rows:
        out += make(row) if choose(row) and chance.random() < 0.02 else [row]
    return sorted(out, key=lambda row: row.ts_us)


def is_kind(*kinds):
    return lambda row: row.event in kinds


DOCTORS = {
    "honest": lambda rows, chance: rows,
    "rejected": lambda rows, chance: changed(
        rows, chance, is_kind("accept"), lambda row: [row._replace(event="reject")]
    ),
    "released": lambda rows, chance: changed(
        rows, chance, is_kind("accept"), lambda row: [row._replace(event="release")]
    ),
    "lost": lambda rows, chance: changed(rows, chance, is_kind(*PLAYED), lambda row: []),
    "lost transfers": lambda rows, chance: changed(rows, chance, is_kind("transfer"), lambda row: []),
    "twice": lambda rows, chance: changed(rows, chance, is_kind(*PLAYED), lambda row: [row, row]),
    "early": lambda rows, chance: changed(
        rows, chance, is_kind("accept"), lambda row: [row._replace(ts_us=max(0, row.ts_us - 300_000))]
    ),
    "late": lambda rows, chance: changed(
        rows, chance, is_kind("accept", "complete"), lambda row: [row._replace(ts_us=row.ts_us + 3_000_000)]
    ),
    "died": lambda rows, chance: died(rows),
}


def died(rows):
    """Let a consumer and then a producer die in the middle, and go on as if they had not."""
    middle = rows[len(rows) // 2].ts_us
    client = next(row.client for row in rows if row.event == "deliver")
    producer = next(row.client for row in rows if row.event == "transfer")
    deaths = [
        LogRow(middle, client, "error", "", "541 internal-error: gone", 0, ""),
        LogRow(middle + 2_000_000, producer, "error", "", "506 resource-limit-exceeded: full", 0, ""),
    ]
    return sorted([*rows, *deaths], key=lambda row: row.ts_us)


def doctored(name, doctor):
    log, workload = recorded(name)
    return ClientLog(log.name, DOCTORS[doctor](list(log.rows), random.Random(7))), workload


# The two ways


def by_trace(log, workload):
    replayer = _Replayer(log, workload)
    for row in log.rows:
        replayer.feed(row)
    replayer.stage.run()
    events, differs = [], Counter()
    for event in replayer.stage.events:
        if event.kind == "client.differs":
            if event.detail["logged"] != "transfer":
                how = event.detail["engine"]
                differs[event.queue, how if how == "not delivered" else "elsewhere"] += 1
        elif not event.kind.startswith(("client.", "session.attach")):
            events.append(event)
    # The one player begins to watch after the queues have been declared.
    ready = next(n for n, event in enumerate(events) if event.kind == "session.detach")
    del events[: ready + 1]
    return events, state_of(replayer.stage.broker), differs


def by_spark(log, workload):
    events, differs = [], Counter()
    player = LogPlayer(workload, events.append, lambda queue, how: differs.update([(queue, how)]))
    for row in log.rows:
        action = getattr(player, row.event, None) if row.event in PLAYED else None
        if action is not None:
            action(max(0, row.ts_us), *row[1:2], *row[3:])
        elif row.event != "reject":
            player.pass_time(max(0, row.ts_us))
    player.pass_time(max(0, log.rows[-1].ts_us))
    events = [event for event in events if event.kind != "session.attach"]
    settled = Counter()
    for (queue, how), number in differs.items():
        if how != "its session is dead":
            settled[queue, how if how == "not delivered" else "elsewhere"] += number
    return events, state_of(player.broker), settled


def state_of(broker):
    return [[k, "counts" if only_counts(k) else v] for k, v in broker.snapshot()["objects"][1:]]


def difference(name, doctor):
    """Return what first differs between the two, or None."""
    log, workload = doctored(name, doctor)
    (one, state, differs), (other, twin, told) = by_trace(log, workload), by_spark(log, workload)
    if one != other:
        place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
        if place is None:
            return f"{len(one)} and {len(other)} events"
        kinds = {one[place].kind, other[place].kind}
        return "reject" if "message.reject" in kinds else "surplus" if "session.completed" in kinds else kinds
    if state != twin:
        return "the state"
    return None if differs == told else "dead" if doctor == "died" else f"{differs} and {told}"


@pytest.mark.parametrize("doctor", DOCTORS)
@pytest.mark.parametrize("name", [*NAMES, "fleet/q02", "fleet/q10"])
def test_both_players_lead_the_engine_alike_but_for_what_is_settled(name, doctor):
    assert difference(name, doctor) in (None, *SETTLED)


def test_on_most_honest_logs_they_agree_in_every_event():
    agreeing = [name for name in NAMES if difference(name, "honest") is None]
    assert set(NAMES) - set(agreeing) <= {"bytes-and-count", "fanout-one-slow"}
