"""Client logs with damage: what is bad is set aside row by row, and nothing else is lost by it."""

import csv
import gzip
import io
import json

import pytest
from commands import output_of, status_of

from qflow.logs import ClientLog, audit
from qflow.logs.log_file import LogError, LogRow
from qflow.logs.workload_file import workload_json
from qflow.workload import Consumer, Producer, Workload

COLUMNS = LogRow._fields
STATS = "[3, 444, false, 0, 1, 0, 0]"
ROWS = [
    row
    for n in range(1, 101)
    for row in (
        (n * 100, "p", "transfer", "q", f"p-{n}", 100, ""),
        (n * 100 + 5, "c", "deliver", "q", f"p-{n}", 100, ""),
        (n * 100 + 9, "c", "accept", "q", f"p-{n}", 0, ""),
        (n * 100 + 50, "broker", "stats", "q", STATS, 0, ""),
    )
]
SMALL = Workload(
    "log",
    1,
    {"q": {}},
    producers=(Producer("p", ("", "q"), rate=100, capacity=5, size=100),),
    consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.001)),),
)


def csv_lines():
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *ROWS])
    return [line + "\n" for line in text.getvalue().splitlines()]


def json_line(*values):
    return json.dumps(dict(zip(COLUMNS, values, strict=True))) + "\n"


def json_lines():
    return [json_line(*row) for row in ROWS]


def read(tmp_path, data, name="log.csv"):
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return ClientLog.read(path)


# Row 41 is the transfer p-11; what becomes of its line.
DAMAGE = {
    "a byte that is no UTF-8": lambda line: line.replace(b"p-11", b"p-1\xff"),
    "a byte in the middle of a character": lambda line: line.replace(b"p-11", "pé-11".encode()[:2] + b"-11"),
    "a stray quotation mark": lambda line: line.replace(b"q,p-11", b'q,"p-11'),
    "two of them": lambda line: line.replace(b"q,p-11", b'"q,p"-11'),
    "one in the group": lambda line: line.replace(b"100,\n", b'100,"\n'),
    "a number with an underscore": lambda line: line.replace(b",100,", b",1_00,"),
    "a number of another script": lambda line: line.replace(b",100,", ",٣,".encode()),
    "a number of 400 digits": lambda line: line.replace(b",100,", b"," + b"9" * 400 + b","),
    "a number of 5000 digits": lambda line: line.replace(b",100,", b"," + b"9" * 5000 + b","),
    "more than 63 bits": lambda line: line.replace(b",100,", b",9223372036854775808,"),
    "a time far ahead": lambda line: line.replace(b"1100,", b"9991100,"),
    "a time with an underscore": lambda line: line.replace(b"1100,", b"1_100,"),
    "a name over 255 bytes": lambda line: line.replace(b",p,", b"," + b"p" * 256 + b","),
    "an empty line": lambda line: b"\n",
    "too many values": lambda line: line.replace(b",100,", b",100,,,"),
    "a null byte": lambda line: line.replace(b",p,", b",\x00,") .replace(b"transfer", b"\x00"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_one_bad_line_costs_one_row(tmp_path, damage, name):
    lines = [line.encode() for line in csv_lines()]
    good, _ = read(tmp_path, b"".join(lines), name)
    lines[41] = damage(lines[41])
    log, quarantine = read(tmp_path, b"".join(lines), name)
    assert [entry.row for entry in quarantine] == [41]
    assert log.rows == good.rows[:40] + good.rows[41:]


def test_many_bad_lines_cost_themselves(tmp_path):
    lines = [line.encode() for line in csv_lines()]
    for number in (5, 9, 13, 200, 399):
        lines[number] = DAMAGE["a stray quotation mark"](lines[number].replace(b"q,p-", b'q,"p-'))
    log, quarantine = read(tmp_path, b"".join(lines))
    assert [entry.row for entry in quarantine if entry.row not in (200, 399)] == [5, 9, 13]
    assert len(log.rows) + len(quarantine) == 400


@pytest.mark.parametrize(
    "line",
    [
        b'{"ts_us": 1100, "client": "p\xff"}\n',
        b'{"ts_us": 1100,\n',
        json_line(1100, "\udc80", "block", "", "", 0, "").encode(),
        json_line(1100, "p", "error", "", "\ud800", 0, "").encode(),
        json_line(1100, "p", "block", "", "", 1 << 63, "").encode(),
        json_line(1 << 70, "p", "block", "", "", 0, "").encode(),
        json_line("١", "p", "block", "", "", 0, "").encode(),
    ],
)
def test_one_bad_line_of_json_costs_one_row(tmp_path, line):
    lines = [row.encode() for row in json_lines()]
    good, _ = read(tmp_path, b"".join(lines), "log.jsonl")
    lines[40] = line
    log, quarantine = read(tmp_path, b"".join(lines), "log.jsonl")
    assert [entry.row for entry in quarantine] == [41]
    assert log.rows == good.rows[:40] + good.rows[41:]


@pytest.mark.parametrize("label", ["", "[3]", "[3, 444, 0, 0, 1, 0, 0]", "{", STATS.replace("444", "9" * 400),
                                   STATS.replace("3", "-3", 1)])  # fmt: skip
def test_one_bad_report_costs_one_row(tmp_path, capsys, label):
    path, given = tmp_path / "log.jsonl", tmp_path / "log.json"
    lines = json_lines()
    lines[43] = lines[43].replace(json.dumps(STATS), json.dumps(label))
    path.write_text("".join(lines))
    given.write_text(json.dumps(workload_json(SMALL)))
    facts = json.loads(output_of(capsys, "trace", "import", path, "--json", status=1))
    assert (facts["rows"], [entry["row"] for entry in facts["quarantine"]]) == (399, [44])
    assert facts["statistics"]["q"]["samples"] == 99


def test_parquet_sets_aside_what_a_trace_cannot_hold(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(COLUMNS, map(list, zip(*ROWS, strict=True)), strict=True))
    columns["size"] = pyarrow.array(columns["size"], pyarrow.uint64())
    bad = {41: 1 << 63, 45: 10**13}
    sizes = columns["size"].to_pylist()
    for row, size in bad.items():
        sizes[row - 1] = size
    for size in (columns["size"], pyarrow.array(sizes, pyarrow.uint64())):
        parquet.write_table(pyarrow.table({**columns, "size": size}), tmp_path / "log.parquet")
        log, quarantine = ClientLog.read(tmp_path / "log.parquet")
        expected = [] if size is columns["size"] else list(bad)
        assert [entry.row for entry in quarantine] == expected
        assert len(log.rows) == 400 - len(expected)


def test_a_bad_first_line_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(LogError, match="the first line must be UTF-8"):
        read(tmp_path, b"ts_us,client\xff\n1,p\n")


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.jsonl", "log.jsonl.gz"])
def test_a_byte_order_mark_is_no_part_of_a_log(tmp_path, name):
    """Windows writes one in front of text."""
    data = "".join(csv_lines() if ".csv" in name else json_lines()).replace("\n", "\r\n").encode("utf-8-sig")
    log, quarantine = read(tmp_path, data, name)
    assert (len(log.rows), quarantine) == (400, [])


def test_a_byte_order_mark_is_no_part_of_a_workload_or_a_trace(tmp_path):
    workload, trace = tmp_path / "small.json", tmp_path / "small.jsonl"
    workload.write_text(json.dumps(workload_json(SMALL)), encoding="utf-8-sig")
    assert Workload.load(workload) == SMALL
    assert status_of("run", workload, "--trace", trace) == 0
    trace.write_bytes(b"\xef\xbb\xbf" + trace.read_bytes().replace(b"\n", b"\r\n"))
    assert status_of("trace", "replay", trace) == 0


@pytest.mark.parametrize(
    "labels", [("p-3", "p-٣"), ("p-3", "p-" + "9" * 5000), ("p-1", "p-1_0"), ("p-7", "p-07")]
)
def test_labels_that_are_no_numbers_are_other_labels(labels):
    """So that none of the two is a label that was sent twice."""
    rows = [LogRow(n, "p", "transfer", "q", label, 1, "") for n, label in enumerate(labels)]
    assert audit(ClientLog("log", rows), SMALL).findings == []


def test_clocks_may_not_differ_by_more_than_time_lasts(tmp_path, capsys):
    path, given = tmp_path / "log.csv", tmp_path / "log.json"
    path.write_text("".join(csv_lines()))
    given.write_text(json.dumps(workload_json(SMALL)))
    for skew in ("1e308", "inf", "nan", "-1"):
        assert status_of("trace", "import", path, "--skew", skew) == 2
        said = capsys.readouterr().err
        assert "or a number of milliseconds from 0, up to 1000000000000, got" in said
    assert status_of("trace", "import", path, "--skew", "1e9") == 0
    capsys.readouterr()
    assert status_of("predict", given, path, "--replays", "9" * 400) == 2
    assert "replays must be a whole number from 1 to 1000, or None" in capsys.readouterr().err
