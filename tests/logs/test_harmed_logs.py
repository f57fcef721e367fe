"""Harms that befall a log on its way to a reader: whatever they are, no finding names an innocent.

The logs are not of the kit's making: recorded ones of an independent simulator, and fresh ones of the
simulator of the tests.  The honest log has no findings, so that each finding about a harmed one is false,
but the one that says that rows are missing.
"""

import csv
import gzip
import io
import json
import random
import re

import pytest
from commands import output_of, status_of
from foreign_simulator import Run
from foreign_workloads import draw, log_rows, users_workload, with_delays
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recordings import RECORDINGS

from qflow.logs import ClientLog, LogRow, audit
from qflow.workload import Workload

DIRTY, REPORTS = RECORDINGS / "foreign" / "dirty", RECORDINGS / "reports"
FOREIGN = sorted(path.name.split(".")[0] for path in (RECORDINGS / "foreign").glob("*.csv.gz"))
HEAD = ("ts_us", "client", "event", "queue", "label", "size", "group")
SECOND, MISSING = 1_000_000, {"rows missing"}


def recorded():
    with gzip.open(DIRTY / "clean.csv.gz", "rt", newline="") as file:
        return list(csv.reader(file))[1:], json.loads((DIRTY / "clean.json").read_text())


def simulated(seed):
    setup = with_delays(draw(seed, is_plain=True, seconds=2), seed)
    rows = [[str(value) for value in row] for row in log_rows(Run(setup), clock_from=1)]
    return rows, users_workload(setup)


def written(path, rows, head=HEAD, separator=",", encoding="utf-8"):
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([head, *rows])
    path.write_bytes(text.getvalue().encode(encoding, "surrogateescape"))
    return [path]


def shuffled(rows, chance, folder):
    return written(folder / "log.csv", sorted(rows, key=lambda row: int(row[0]) + chance.randrange(SECOND)))


def duplicated(rows, chance, folder):
    return written(folder / "log.csv", [row for row in rows for _ in range(chance.choice((1, 1, 1, 2, 3)))])


def written_twice(rows, chance, folder):
    return written(folder / "log.csv", [*rows, *rows])


def without_a_span(rows, chance, folder):
    long = chance.choice((30, len(rows) // 20, len(rows) // 5))
    begin = chance.randrange(len(rows) - long)
    return written(folder / "log.csv", rows[:begin] + rows[begin + long :])


def with_a_clock(rows, chance, folder):
    """One client's clock is ahead or behind."""
    client = chance.choice(sorted({row[1] for row in rows if row[2] in ("transfer", "deliver")}))
    off = chance.choice((-400_000, -300_000, 300_000, 400_000))
    moved = [[str(int(row[0]) + off * (row[1] == client)), *row[1:]] for row in rows]
    return written(folder / "log.csv", sorted(moved, key=lambda row: int(row[0])))


def renamed(rows, chance, folder):
    """Columns with blanks around their names, in another order, with one that means nothing."""
    head = [" queue ", "event", "note", " client", "label", "ts_us", "size ", "group"]
    order = [[row[3], row[2], "a, b", row[1], row[4], row[0], row[5], row[6]] for row in rows]
    return written(folder / "log.csv", order, head)


def separated(rows, chance, folder):
    return written(folder / "log.csv", rows, separator=chance.choice(";\t|"))


def split(rows, chance, folder):
    """As Spark writes a folder: parts in no order, below days, beside files that are none."""
    parts = [[] for _ in range(4)]
    for row in rows:
        chance.choice(parts).append(row)
    for number, part in enumerate(parts):
        day = folder / "log" / f"day={number % 2}"
        day.mkdir(parents=True, exist_ok=True)
        written(day / f"part-{number:05d}-c000.csv", part)
    (folder / "log" / "_SUCCESS").touch()
    (folder / "log" / ".part-00000.crc").write_bytes(b"crc")
    return [folder / "log"]


def by_client(rows, chance, folder):
    names = sorted({row[1] for row in rows})
    return [
        path
        for name in names
        for path in written(folder / f"{name}.csv", [row for row in rows if row[1] == name])
    ]


def with_bad_values(rows, chance, folder):
    bad = {0: "noon", 2: "sent?", 4: "\udcff", 5: "big"}
    harmed = []
    for row in rows:
        place = chance.choice(list(bad)) if chance.random() < 0.01 else None
        harmed.append([bad[place] if place == at else value for at, value in enumerate(row)])
    return written(folder / "log.csv", harmed)


def with_cut_lines(rows, chance, folder):
    (path,) = written(folder / "log.csv", rows)
    head, *lines = path.read_text().splitlines()
    lines = [line[: chance.randrange(len(line))] if chance.random() < 0.01 else line for line in lines]
    path.write_text("\n".join([head, *lines]) + "\n")
    return [path]


def in_utf16(rows, chance, folder):
    return written(folder / "log.csv", rows, encoding="utf-16")


def without_sizes(rows, chance, folder):
    return written(
        folder / "log.csv", [[*row[:5], row[5] if row[2] == "transfer" else "", row[6]] for row in rows]
    )


def in_an_array(rows, chance, folder):
    objects = [
        dict(zip(HEAD, [int(row[0]), *row[1:5], int(row[5] or 0), row[6]], strict=True)) for row in rows
    ]
    (folder / "log.json").write_text(json.dumps(objects, indent=1))
    return [folder / "log.json"]


def in_milliseconds(rows, chance, folder):
    return shuffled([[str(int(row[0]) // 1000 * 1000), *row[1:]] for row in rows], chance, folder)


HARMS = {
    shuffled: set(), duplicated: set(), written_twice: set(), without_a_span: MISSING, with_a_clock: set(),
    renamed: set(), separated: set(), split: set(), by_client: set(), with_bad_values: set(),
    with_cut_lines: set(), in_utf16: set(), without_sizes: set(), in_an_array: set(), in_milliseconds: set(),
}  # fmt: skip
"""Each harm, and the findings that it may have."""

COMPLETE = (shuffled, duplicated, written_twice, renamed, separated, split, by_client, in_utf16, in_an_array)
"""Harms after which a log is as it was."""


def audited(harm, rows, workload, seed, folder):
    files = harm(rows, random.Random(seed), folder)
    log, quarantine = ClientLog.read(files)
    return audit(log, Workload.from_json(workload)), log, quarantine


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_a_harmed_recording_convicts_nobody(tmp_path, harm):
    rows, workload = recorded()
    honest = audit(ClientLog.load(written(tmp_path / "honest.csv", rows)), Workload.from_json(workload))
    found, log, quarantine = audited(harm, rows, workload, harm.__name__, tmp_path)
    assert {one.kind for one in found.findings} == HARMS[harm]
    assert bool(quarantine) == (harm in (with_bad_values, with_cut_lines))
    if harm in COMPLETE:
        assert len(log.rows) == len(rows)
        assert found.run.events == honest.run.events


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), harm=st.sampled_from(list(HARMS)))
def test_any_harmed_log_of_a_stranger_convicts_nobody(tmp_path_factory, seed, harm):
    rows, workload = simulated(seed)
    folder = tmp_path_factory.mktemp("harmed")
    if audit(ClientLog.load(written(folder / "honest.csv", rows)), Workload.from_json(workload)).findings:
        return
    found, _, _ = audited(harm, rows, workload, seed, folder)
    assert {one.kind for one in found.findings} <= HARMS[harm], [one.text() for one in found.findings[:3]]


def of_a_stranger(name):
    """Return the rows and the workload of a foreign log."""
    with gzip.open(RECORDINGS / "foreign" / f"{name}.csv.gz", "rt", newline="") as file:
        rows = [_row(row) for row in list(csv.reader(file))[1:]]
    return rows, Workload.load(RECORDINGS / "foreign" / f"{name}.json")


@pytest.mark.parametrize("name", FOREIGN)
def test_a_clock_that_is_ahead_convicts_nobody(name):
    rows, workload = of_a_stranger(name)
    client = sorted({row.client for row in rows if row.event == "deliver"})[0]
    shifted = [row._replace(ts_us=row.ts_us + 300_000 * (row.client == client)) for row in rows]
    assert audit(ClientLog(name, shifted), workload).findings == []


@pytest.mark.parametrize("name", FOREIGN)
def test_rows_lost_one_by_one_are_one_finding_and_no_other(name):
    """A log that is sent over UDP loses one row here and one there."""
    rows, workload = of_a_stranger(name)
    chance = random.Random(name)
    left = [row for row in rows if chance.random() > 0.01]
    found = audit(ClientLog(name, left), workload).findings
    assert [one.kind for one in found] == ["rows missing"]
    assert len(rows) - len(left) == pytest.approx(found[0].number, rel=1)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_tenth_of_the_rows_missing_is_one_finding_at_its_place(name):
    rows, workload = of_a_stranger(name)
    begin, end = len(rows) * 4 // 10, len(rows) // 2
    found = audit(ClientLog(name, rows[:begin] + rows[end:]), workload).findings
    assert [one.kind for one in found] == ["rows missing"]
    assert (found[0].time, found[0].time + found[0].gap) == (rows[begin - 1].ts_us, rows[end].ts_us)


@pytest.mark.parametrize("name", FOREIGN)
def test_thirty_missing_rows_are_one_finding_and_no_other(name):
    """Few messages lose all their rows then: some stop, of some the end is there without its beginning."""
    rows, workload = of_a_stranger(name)
    for share in (0.12, 0.3, 0.5, 0.7, 0.9):
        begin = int(len(rows) * share)
        found = audit(ClientLog(name, rows[:begin] + rows[begin + 30 :]), workload).findings
        assert [one.kind for one in found] == ["rows missing"], share
        assert abs(found[0].time - rows[begin - 1].ts_us) < SECOND / 2, (share, found[0])


# The verdicts that stand beside the logs


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in DIRTY.glob("*.verdict.json")))
def test_a_dirty_log_has_the_verdict_beside_it(capsys, name):
    verdict = json.loads((DIRTY / f"{name}.verdict.json").read_text())
    words = "trace", "import", DIRTY / f"{name}.csv.gz", DIRTY / f"{name}.json"
    status_of(*words)
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    status_of(*words, "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == verdict.get("rows", facts["rows"])
    for what in ("findings", "quarantine"):
        least, most = verdict.get(what, (0, None))
        assert least <= len(facts[what]) and (most is None or len(facts[what]) <= most)
    for group in verdict.get("say", ()):
        assert any(re.search(pattern, line, re.IGNORECASE) for pattern in group for line in lines), group
    for pattern in verdict.get("not_say", ()):
        assert not any(re.search(pattern, line, re.IGNORECASE) for line in lines), pattern
    if "skew_ms" in verdict:
        least, most = verdict["skew_ms"]
        assert [
            client for client, off in facts["cleaning"]["clocks_us"].items() if least <= off / 1000 <= most
        ]


@pytest.mark.parametrize("name", ["in-order.csv", "one-row-late.csv", "interleaved.parquet"])
def test_a_reported_log_is_read_as_if_it_were_in_order(name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    in_order = ClientLog.load(REPORTS / "in-order.csv")
    log = ClientLog.load(REPORTS / name)
    # A part of the table has sizes where a client writes none.
    assert [row._replace(size=0) for row in log.rows] == [row._replace(size=0) for row in in_order.rows]
    assert log.cleaning.late == {"in-order.csv": 0, "one-row-late.csv": 1, "interleaved.parquet": 5}[name]


def test_blanks_after_commas_are_no_part_of_names_and_values(capsys):
    said = output_of(capsys, "trace", "import", REPORTS / "blank-after-comma.csv", "--map", "")
    assert "4 rows became" in said and "no findings" in said


# Completions


def test_lost_completions_are_findings_and_no_others():
    rows, workload = recorded()
    chance = random.Random(50)
    # Of the last ones the log shows no later completion.
    completions = [row for row in rows if row[2] == "complete" and int(row[0]) < 9 * SECOND]
    lost = chance.sample(completions, 50)
    log = ClientLog("lost", [_row(row) for row in rows if row not in lost])
    found = audit(log, Workload.from_json(workload)).findings
    assert {one.kind for one in found} == {"never completed"}
    assert {one.message for one in found} <= {row[4] for row in lost}
    assert len(found) > 40


@pytest.mark.parametrize("levels", [(80, 60), (60, 40)])
def test_completions_withheld_by_lower_thresholds_than_the_files_are_a_finding(levels):
    """The broker ran with 40 and 20."""
    rows, workload = recorded()
    stop, resume = levels
    workload["queues"]["orders"] |= {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    log = ClientLog("other", [_row(row) for row in rows])
    (found,) = audit(log, Workload.from_json(workload)).findings
    assert (found.kind, found.queue) == ("thresholds differ", "orders") and found.number > 300


def _row(row):
    return LogRow(int(row[0]), *row[1:5], int(row[5] or 0), row[6])
