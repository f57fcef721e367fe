"""One table of many components, in no order: each is audited as its own log would be, cleaned in memory."""

import json
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fleet_table import COUNTED, DAY, IN_VALUE, MAP, begin_of, expected, make_fleet, write_kafka, write_table

from qflow.cli import main
from qflow.kit import RefusalError
from qflow.logs.components import result_hash
from qflow.logs.log_file import LogRow

pytest.importorskip("pyarrow")


def events_table(folder, fleet, **more):
    from qflow.spark.events_table import EventsTable

    return EventsTable(*write_table(folder, fleet), columns=MAP, component="app", **more)


@pytest.fixture(scope="module")
def fleet():
    return make_fleet(12, 900)


def test_a_table_gives_what_each_log_gives_in_memory(spark, fleet, tmp_path):
    from qflow.spark.events_table import make_lake_of_table
    from qflow.spark.figures import report_day
    from qflow.spark.lake_audit import audit_to

    table = events_table(tmp_path, fleet)
    report = make_lake_of_table(spark, table, tmp_path / "lake", 3, "2026-11-27")
    assert report.quarantined == 0, report.quarantine
    results = audit_to(spark, tmp_path / "lake", tmp_path / "out")
    kept = [json.loads(row.message) for row in results.where("kind = 'log'").collect()]
    found = results.where("kind != 'log'").collect()
    wanted = expected(fleet)
    assert Counter(row.component for row in found) == Counter(row.component for row in wanted)
    assert result_hash(found) == result_hash(wanted)
    # Each log keeps its clock: its time 0, which a clock behind moves, and its zone.
    apart = {one["source"]: one["origin_us"] / 1e6 - begin_of(one["source"]).timestamp() for one in kept}
    assert len(apart) == 12 and all(abs(off) < 1 for off in apart.values())
    assert {one["zone"] for one in kept} == {"+01:00", "-05:00"}
    rows = {one["source"]: one["rows"] + one["duplicates"] for one in kept if one["rows"]}
    assert rows == {name: len(rows) for name, (rows, _) in fleet.items()}
    # The page says what a query over the results says, by the clock.
    page = report_day(spark, tmp_path / "out")
    on = [row for row in wanted if row.kind == "flow_on"]
    held = sum(row.kind == "held" for row in wanted)
    assert f"Queues were ON {len(on):,} times, and held {held:,} transfers." in page.claims
    broken = sum(row.kind == "finding" and row.finding not in COUNTED for row in wanted)
    assert f"{broken:,} findings." in page.claims
    first = min(one["origin_us"] for one in kept if one["source"] in {log for log, *_ in page.logs})
    ticks = page.charts[0].figure.layout.xaxis.ticktext
    assert len(page.logs) == 12 and first // 1_000_000 == DAY.timestamp() + 30
    assert page.charts[0].figure.layout.xaxis.title.text == "clock time, UTC"
    assert set(ticks) <= {f"{hour:02}:{minute:02}" for hour in range(13) for minute in (0, 30)}
    # Nothing new: nothing is read. Another state of the table replaces what was read of it that day.
    again = make_lake_of_table(spark, table, tmp_path / "lake", 3, "2026-11-27")
    assert again.events == 0 and again.kept


def test_components_by_topology_by_a_pattern_and_without_a_workload(spark, tmp_path):
    """Two queues of one workload, with no column that names the component; a stranger; a missing workload."""
    from qflow.spark.events_table import EventsTable, make_lake_of_table
    from qflow.spark.lake import read_lake

    queues = {"q": {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}, "r": {}}
    senders = [{"name": f"p{q}", "to": ["", q], "rate": 9, "capacity": 9, "size": 1} for q in queues]
    (tmp_path / "all.json").write_text(
        json.dumps({"name": "w", "duration": 1, "queues": queues, "producers": senders})
    )
    lines = [f"{1764237600 + n / 100:.2f},p{q},transfer,{q},p{q}-{n}" for q in queues for n in range(1, 9)]
    lines += ["1764237600.5,broker,stats,r,none", "1764237600.6,nobody,block,,", "soon,pq,block,,"]
    random.Random(3).shuffle(lines)
    (tmp_path / "t.csv").write_text("\n".join(["when,host-name,event,queue,id", *lines]) + "\n")
    columns = "time=when,client=host-name"
    by_topology = EventsTable(str(tmp_path / "t.csv"), str(tmp_path / "all.json"), "csv", columns)
    report = make_lake_of_table(spark, by_topology, tmp_path / "lake", 2, "2026-11-27")
    reasons = sorted((row.source, row.row > 0, row.reason[:26]) for row in report.quarantine)
    assert reasons == [
        ("strangers", False, "not judged: the workload s"),
        ("w/q", True, "must be seconds since 1970"),
        ("w/r", True, "must be a JSON list of msg"),
    ]
    rows = read_lake(spark, tmp_path / "lake").where("event = 'transfer'").groupBy("component").count()
    assert {row.component: row["count"] for row in rows.collect()} == {"w/q": 8, "w/r": 8}
    by_pattern = EventsTable(
        str(tmp_path / "t.csv"),
        str(tmp_path / "all.json"),
        "csv",
        columns,
        "host-name:(p.)",
        where="event = 'transfer'",
    )
    report = make_lake_of_table(spark, by_pattern, tmp_path / "other", 2, "2026-11-27")
    rows = read_lake(spark, tmp_path / "other").where("event = 'transfer'").select("component").distinct()
    assert {row.component for row in rows.collect()} == {"pq/q", "pr/r"}
    strange = EventsTable(str(tmp_path / "t.csv"), str(tmp_path / "all.json"), "csv", columns, "app")
    with pytest.raises(RefusalError, match="--component: there is no column 'app'; the columns are when, ho"):
        make_lake_of_table(spark, strange, tmp_path / "x")


def write_numbered(folder, rows, workload, lost):
    """Write a component's rows, numbered as they happened, some lost, twice or at wrong times, shuffled."""
    import pyarrow
    from pyarrow import parquet

    lines = [(number, "app", *row) for number, row in enumerate(rows) if number not in lost]
    lines += lines[10:20]
    random.Random(2).shuffle(lines)
    folder.mkdir(exist_ok=True)
    names = ("seq", "app", "ts_us", "client", "event", "queue", "label", "size", "group")
    parquet.write_table(
        pyarrow.table(dict(zip(names, zip(*lines, strict=True), strict=True))), folder / "0.parquet"
    )
    (folder.parent / "app.json").write_text(json.dumps(workload))
    return str(folder), str(folder.parent / "app.json")


def test_a_tables_own_numbers_are_its_order_and_say_exactly_what_is_missing(spark, tmp_path):
    from qflow.spark.events_table import EventsTable, make_lake_of_table
    from qflow.spark.lake import read_lake

    (rows, workload), lost = make_fleet(1, 900)["app-000"], {*range(50, 60), 120}
    # Rows of one instant: only the numbers know their order.
    rows = [row._replace(ts_us=row.ts_us // 1000 * 1000) for row in dict.fromkeys(rows)]
    events = EventsTable(*write_numbered(tmp_path / "events", rows, workload, lost), component="app")
    report = make_lake_of_table(spark, events, tmp_path / "lake", 1, "2026-11-27")
    (aside,) = report.quarantine
    assert aside.reason == f"11 events are missing between 0 and {len(rows) - 1}"
    found = read_lake(spark, tmp_path / "lake").orderBy("component", "seq").collect()
    assert json.loads(found[0].group)["missing"] == 11 and json.loads(found[0].group)["duplicates"] == 10
    kept = [row for number, row in enumerate(rows) if number not in lost]
    assert [LogRow(*row[2:9]) for row in found if row.event not in ("begin", "end")] == kept


def test_a_table_that_has_changed_is_read_again_in_place_of_that_days_run(spark, tmp_path):
    """Late rows came for a day: its results are those of all rows, and nothing of the first run."""
    from qflow.spark.events_table import EventsTable, make_lake_of_table
    from qflow.spark.lake_audit import audit_to, results_with_keys

    fleet = make_fleet(3, 900)
    early = {name: (rows[: len(rows) // 2], workload) for name, (rows, workload) in fleet.items()}
    place, workloads = write_table(tmp_path, early)
    (tmp_path / "late").mkdir()
    late, _ = write_table(
        tmp_path / "late", {name: (r[len(r) // 2 :], w) for name, (r, w) in fleet.items()}, parts=1
    )
    events = EventsTable(place, workloads, columns=MAP, component="app")

    def audited(*days):
        """Return the hash of each day's results after new runs on some days."""
        for day in days:
            assert make_lake_of_table(spark, events, tmp_path / "lake", 2, day).events > 0
        assert not make_lake_of_table(spark, events, tmp_path / "lake", 2, days[-1]).events
        audit_to(spark, tmp_path / "lake", tmp_path / "out")
        rows, unfinished = results_with_keys(spark, tmp_path / "out")
        assert not unfinished
        found = {}
        for row in rows.where("kind != 'log'").collect():
            # Beside another day a component's name has its own.
            component = row.component.replace(f"@{row.day}", "")
            found.setdefault(row.day, []).append((component, *row[1:-2]))
        return {day: result_hash(own) for day, own in found.items()}

    of_early, of_all = result_hash(expected(early)), result_hash(expected(fleet))
    assert audited("2026-11-27", "2026-11-28") == {"2026-11-27": of_early, "2026-11-28": of_early}
    shutil.copy(f"{late}/0.parquet", f"{place}/late.parquet")
    assert audited("2026-11-27") == {"2026-11-27": of_all, "2026-11-28": of_early}
    # The table is again as it was; then it is read in another way, which comes to the same.
    Path(place, "late.parquet").unlink()
    assert audited("2026-11-27") == {"2026-11-27": of_early, "2026-11-28": of_early}
    events = replace(events, zone="Europe/Berlin")
    assert audited("2026-11-27") == {"2026-11-27": of_early, "2026-11-28": of_early}


def test_lines_of_json_with_times_in_milliseconds_and_one_that_is_no_json(spark, tmp_path, capsys):
    """As a collector writes them: nested keys, null where there is nothing, a line cut off."""
    fleet, lines = make_fleet(2, 600), []
    (tmp_path / "workloads").mkdir()
    for name, (rows, workload) in fleet.items():
        (tmp_path / "workloads" / f"{name}.json").write_text(json.dumps(workload))
        for row in rows:
            at = begin_of(name).timestamp() * 1000 + row.ts_us // 1000
            message = {"id": row.label or None, "bytes": row.size or None, "grp": row.group or None}
            who = {"app": name, "node": row.client}
            lines.append(
                json.dumps({"at": round(at), "who": who, "what": row.event, "to": row.queue, "m": message})
            )
    random.Random(7).shuffle(lines)
    lines.insert(50, lines[0][:30])
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + "\n")
    words = ["spark", "audit", "--table", str(tmp_path / "events.jsonl"), "--format", "json"]
    words += ["--map", "time=at,client=who.node,event=what,queue=to,label=m.id,size=m.bytes,group=m.grp"]
    words += ["--component", "who.app", "--workloads", str(tmp_path / "workloads"), "--json"]
    assert main([*words, "--fail-on", "rows"]) == 1
    told = json.loads(capsys.readouterr().out)
    numbers = told["metrics"]
    assert numbers["rows"] + numbers["duplicates"] == len(lines) - 1
    assert (numbers["quarantined"], numbers["not_judged"]) == (1, 1)
    (aside,) = told["first_set_aside"]
    assert aside["source"] == "unnamed" and "the workload unnamed.json is missing" in aside["reason"]


@pytest.mark.parametrize("files", [None, 1])
def test_events_of_kafkas_shape_give_what_the_table_gives(spark, fleet, tmp_path, files):
    """Taken at once, and file by file, where a component ends when it has been silent for ten minutes."""
    pytest.importorskip("google.protobuf")
    from qflow.spark import EventsTable
    from qflow.spark.stream import audit_events, read_results, start

    some = {name: fleet[name] for name in list(fleet)[:4]}
    _, workloads = write_table(tmp_path, some)
    topic = write_kafka(tmp_path, some, random.Random(8))
    options = {} if files is None else {"maxFilesPerTrigger": str(files)}
    events = EventsTable(topic, workloads, columns=IN_VALUE, component="value.app", options=options)
    query = start(
        audit_events(spark, events, 5, 600, once=files is None),
        tmp_path / "out",
        once=True,
        by_event_time=True,
    )
    query.awaitTermination()
    found = read_results(spark, tmp_path / "out").collect()
    wanted = expected(some)
    if files is not None:
        # The last component is not silent for long enough yet, as nothing comes after it.
        wanted = [row for row in wanted if not row.component.startswith("app-003")]
        assert not sum(
            one.numRowsDroppedByWatermark for step in query.recentProgress for one in step.stateOperators
        )
    assert result_hash(found) == result_hash(wanted)


def by_topology(folder, name, node, workload="w"):
    """Write a table of one queue's rows, whose components follow from the topology of one workload."""
    from qflow.spark.events_table import EventsTable

    sender = {"name": "p", "to": ["", "q"], "rate": 9, "capacity": 9, "size": 1}
    (folder / "w.json").write_text(
        json.dumps({"name": workload, "duration": 1, "queues": {"q": {}}, "producers": [sender]})
    )
    lines = [f"{1764237600 + n / 100:.2f},{node},transfer,q,p-{n}" for n in range(1, 9)]
    (folder / f"{name}.csv").write_text("\n".join(["time,client,event,queue,label", *lines]) + "\n")
    return EventsTable(str(folder / f"{name}.csv"), str(folder / "w.json"), "csv")


def test_two_days_and_two_tables_of_the_same_names_are_never_mixed(spark, tmp_path):
    """On another day a component has the day in its name; a second table of one day is refused."""
    from qflow.spark.events_table import make_lake_of_table
    from qflow.spark.lake import read_lake

    events, lake = by_topology(tmp_path, "one", "p"), tmp_path / "lake"
    for day in ("2026-11-27", "2026-11-28"):
        assert make_lake_of_table(spark, events, lake, 2, day).components == 1
    found = read_lake(spark, lake).groupBy("component").count().collect()
    assert {row.component: row["count"] for row in found} == {"w/q": 10, "w@2026-11-28/q": 10}
    # Other rows of a table that is read already, and another table: each would be mixed with what is there.
    for other in (replace(events, where="label = 'p-3'"), by_topology(tmp_path, "two", "p")):
        for day in ("2026-11-27", "2026-11-28"):
            with pytest.raises(RefusalError, match=f"a log named 'w' of {day} already, from another table"):
                make_lake_of_table(spark, other, lake, 2, day)
    assert read_lake(spark, lake).count() == 20
    # The table itself may change, beside another one whose components have other names.
    with (tmp_path / "one.csv").open("a") as file:
        file.write("1764237600.5,p,transfer,q,p-9\n")
    (tmp_path / "other").mkdir()
    other = by_topology(tmp_path / "other", "three", "p", workload="v")
    for table, count in ((other, 8), (events, 9)):
        report = make_lake_of_table(spark, table, lake, 2, "2026-11-27")
        assert (report.events, report.components) == (count + 2, 1)
    found = read_lake(spark, lake).groupBy("component").count().collect()
    assert {row.component: row["count"] for row in found} == {
        "w@2026-11-27/q": 11,
        "w@2026-11-28/q": 10,
        "v@2026-11-27/q": 10,
    }


def test_rows_of_no_known_component_do_not_keep_a_second_table_out(spark, tmp_path):
    from qflow.spark.events_table import EventsTable, make_lake_of_table
    from qflow.spark.lake_audit import audit_to, without_logs

    queue = {"duration": 1, "queues": {"q": {}}}
    for name in "pr":
        sender = {"name": name, "to": ["", "q"], "rate": 9, "capacity": 9, "size": 1}
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, **queue, "producers": [sender]}))
        lines = [f"{1764237600 + n},{name if n else 'x'},transfer,q,{name}-{n}" for n in range(4)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time,client,event,queue,label", *lines]) + "\n")
        events = EventsTable(str(tmp_path / f"{name}.csv"), str(tmp_path), "csv", component="client")
        report = make_lake_of_table(spark, events, tmp_path / "lake", 2, "2026-11-27")
        assert (report.events, report.quarantined) == (3 + 2 * 2, 1), report.quarantine
    found = without_logs(audit_to(spark, tmp_path / "lake", tmp_path / "out")).collect()
    assert [(row.component, row.finding) for row in found if row.component == "x/"] == [("x/", "refused")]
