"""Tables of the events of many components, as a platform has them: written here, read by nothing of ours.

The rows are those of an independent simulator (:mod:`foreign_simulator`), harmed as logs are on their way.
"""

import json
import random
from datetime import UTC, datetime, timedelta, timezone

from foreign_simulator import Run
from foreign_workloads import draw, log_rows, users_workload

from qflow.logs.audit import correct_clocks
from qflow.logs.cleaning import clean_rows
from qflow.logs.components import Splitter, audit_in_memory
from qflow.logs.log_file import OF_CONSUMERS, LogRow
from qflow.workload import Workload

DAY = datetime(2026, 11, 27, tzinfo=UTC)
ZONES = (timezone(timedelta(hours=1)), timezone(timedelta(hours=-5)))
SKEWED = {1: ("c0", 350_000), 4: ("c0", -400_000), 7: ("c0", 250_000)}
"""Of three components a client whose clock is ahead, or behind, by microseconds."""
COUNTED = ("max_depth", "dropped", "differs", "reports")
"""Findings that only count."""
COLUMNS = ("app", "when", "node", "what", "where", "id", "bytes", "grp")
MAP = "time=when,client=node,event=what:{sent=transfer},queue=where,label=id,size=bytes,group=grp"


def make_fleet(number, most, seconds=2):
    """Return components: name to the rows that each one's clients logged, harmed, and its workload.

    Those that log less than the most rows are played for longer, up to ``seconds``.
    """
    fleet = {}
    for seed in range(number):
        chance = random.Random(f"a table {seed}")
        setup = draw(1000 + seed, is_plain=True, seconds=2)
        rows = log_rows(Run(setup))
        if len(rows) < most and seconds > 2:
            enough = min(seconds, 2 + 2 * most // max(1, len(rows)))
            setup = draw(1000 + seed, is_plain=True, seconds=enough)
            rows = log_rows(Run(setup))
        rows = [LogRow(*row) for row in rows[:most]]
        skewed, offset = SKEWED.get(seed, ("", 0))
        rows = [row._replace(ts_us=row.ts_us + offset * (row.client == skewed)) for row in rows]
        rows = [row for row in rows if chance.random() > 0.01]
        rows += [row for row in rows if chance.random() < 0.02]
        fleet[f"app-{seed:03}"] = rows, users_workload(setup, f"app-{seed:03}")
    return fleet


def begin_of(name):
    """Return the instant of a component's time 0: an hour apart from the next one's."""
    return DAY + timedelta(hours=int(name[-3:]) % 12, seconds=30)


def write_table(folder, fleet, *, parts=3):
    """Write all rows shuffled into one Parquet table of text, and a workload for each component."""
    import pyarrow
    from pyarrow import parquet

    lines = []
    for place, (name, (rows, workload)) in enumerate(fleet.items()):
        zone = ZONES[place % 2]
        for row in rows:
            time = (begin_of(name) + timedelta(microseconds=row.ts_us)).astimezone(zone)
            event = "sent" if row.event == "transfer" else row.event
            lines.append((name, time.isoformat(timespec="microseconds"), row.client, event, *row[3:]))
        (folder / "workloads").mkdir(exist_ok=True)
        (folder / "workloads" / f"{name}.json").write_text(json.dumps(workload))
    random.Random(5).shuffle(lines)
    (folder / "events").mkdir()
    for part in range(parts):
        columns = zip(COLUMNS, zip(*lines[part::parts], strict=True), strict=True)
        parquet.write_table(pyarrow.table(dict(columns)), folder / "events" / f"{part}.parquet")
    return str(folder / "events"), str(folder / "workloads")


def expected(fleet):
    """Return the results of each component's own log: cleaned and audited in memory."""
    results = []
    for name, (rows, workload) in fleet.items():
        rows = list(rows)
        random.Random(name).shuffle(rows)
        first = min(row.ts_us for row in rows)
        clean = clean_rows([row._replace(ts_us=row.ts_us - first) for row in rows], has_order=False)
        model = Workload.from_json(workload, name=name)
        clean = correct_clocks(clean, model, 5_000)
        shown = {(row.client, row.queue) for row in rows if row.event in OF_CONSUMERS}
        splitter, lake = Splitter(name, model, clean.tolerance, shown), {}
        for component, row in (*splitter.split(clean.rows()), *splitter.end()):
            lake.setdefault(component, []).append(row)
        results += audit_in_memory(lake)
    return results


def write_kafka(folder, fleet, chance, files=3):
    """Write the rows as a Kafka source gives them: JSON in bytes, in partitions, by time of arrival."""
    import pyarrow
    from pyarrow import parquet

    lines = []
    for name, (rows, _) in fleet.items():
        for row in rows:
            at = begin_of(name) + timedelta(microseconds=row.ts_us)
            value = {"app": name, "at": at.isoformat(timespec="microseconds"), "who": {"node": row.client}}
            value |= {
                "what": row.event,
                "where": row.queue,
                "id": row.label,
                "bytes": row.size,
                "grp": row.group,
            }
            # A row arrives at most a second late.
            lines.append((at + timedelta(seconds=chance.random()), json.dumps(value).encode()))
    lines.sort()
    (folder / "topic").mkdir()
    size = -(-len(lines) // files)
    for part in range(files):
        some = lines[part * size : (part + 1) * size]
        numbers = list(range(len(some)))
        table = {
            "key": [b"k"] * len(some),
            "value": [value for _, value in some],
            "topic": ["logs"] * len(some),
            "partition": pyarrow.array([part] * len(some), pyarrow.int32()),
            "offset": pyarrow.array(numbers, pyarrow.int64()),
            "timestamp": pyarrow.array([at for at, _ in some], pyarrow.timestamp("us", "UTC")),
        }
        parquet.write_table(pyarrow.table(table), folder / "topic" / f"{part}.parquet")
    return str(folder / "topic")


IN_VALUE = (
    "time=value.at,client=value.who.node,event=value.what,queue=value.where,label=value.id,"
    "size=value.bytes,group=value.grp"
)
