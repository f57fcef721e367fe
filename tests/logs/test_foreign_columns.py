"""Logs that other programs wrote: their columns, their times, and what of a workload they do not show."""

import csv
import gzip
import json
from datetime import UTC, datetime

import pytest
from commands import output_of, refusal, status_of
from recordings import write_beginning

from qflow.logs import ClientLog
from qflow.logs.foreign_columns import ColumnMap
from qflow.logs.log_file import LogError, read_log
from qflow.workload import Workload

OWN = ("ts_us", "client", "event", "queue", "label", "size", "group")
HEAD = "when,host,action,address,message_id,bytes\n"
MAP = "time=when,event=action:{sent=transfer,acked=complete}"
SENT_IS_TRANSFER = "event=action:{sent=transfer}"
SENT = "{},shop,sent,orders,{},100\n"

INSTANT = 1_763_837_805
TIMES = [
    # What the first three rows have, the unit as it is recognised, and what becomes of them.
    ((INSTANT, INSTANT + 1, INSTANT + 3), "s", (0, 1_000_000, 3_000_000)),
    (("1763837805.5", "1763837805.500001", "1763837806.75"), "s", (0, 1, 1_250_000)),
    ((1763837805000, 1763837805002, 1763837808000), "ms", (0, 2_000, 3_000_000)),
    ((1763837805000000, 1763837805000002, 1763837808000000), "us", (0, 2, 3_000_000)),
    ((1763837805000000999, 1763837805000002000, 1763837808000000000), "ns", (0, 2, 3_000_000)),
    (("2025-11-22T18:56:45Z", "2025-11-22T18:56:45.002Z", "2025-11-22T19:56:48+01:00"), "iso with a zone", 3),
    (("2025-11-22 18:56:45", "2025-11-22 18:56:45.002", "2025-11-22 18:56:48.000000"), "iso", 3),
    # From anywhere: whole numbers are microseconds, others seconds.
    ((5, 9, 3_000_005), "us", (0, 4, 3_000_000)),
    (("0.25", "0.250001", "3"), "s", (0, 1, 2_750_000)),
    # The later ones look like seconds since 1970, and are not.
    ((946_684_700, 946_684_701, 946_684_900), "us", (0, 1, 200)),
    # The rows before the third decide, even if the first has another unit or none.
    (("-", 1763837805000, 1763837805002), "ms", (0, 2_000)),
    ((1763837805, 1763837805000, 1763837805002), "ms", (0, 2_000)),
]


def written(path, times, head=HEAD, line=SENT):
    path.write_text(head + "".join(line.format(time, n) for n, time in enumerate(times, 1)))
    return path


@pytest.mark.parametrize(("times", "unit", "expected"), TIMES, ids=[str(times[0][0]) for times in TIMES])
def test_times_are_recognised_and_made_relative(tmp_path, times, unit, expected):
    expected = (0, 2_000, 3_000_000) if expected == 3 else expected
    path = written(tmp_path / "log.csv", times)
    log, quarantine = ClientLog.read(path, MAP)
    assert tuple(row.ts_us for row in log.rows) == expected
    assert len(quarantine) == len(times) - len(expected)
    (bit,) = read_log(path, MAP)
    assert (bit.recognised.clock.unit, bit.recognised.clock.is_guess) == (unit, True)


@pytest.mark.parametrize(
    ("unit", "times", "expected"),
    [
        ("ms", (5, 9), [0, 4_000]),
        ("s", (5, "9.5"), [0, 4_500_000]),
        ("ns", (5_000, 9_999), [0, 4]),
        # So long since a machine was started in nanoseconds looks like microseconds since 1970.
        ("ns", (1_728_000_000_000_000, 1_728_000_000_004_000), [0, 4]),
        ("iso", ("2025-11-22", "2025-11-23"), [0, 86_400_000_000]),
    ],
)
def test_a_unit_that_is_given_is_taken(tmp_path, unit, times, expected):
    log = ClientLog.load(written(tmp_path / "log.csv", times), MAP.replace("when", f"when:{unit}"))
    assert [row.ts_us for row in log.rows] == expected


ROWS = [
    {"@timestamp": "2025-11-22T18:56:45Z", "host": {"name": "shop"}, "action": "sent", "address": "orders",
     "message_id": 7, "bytes": 100, "pid": 1},
    {"@timestamp": "2025-11-22T18:56:45.5Z", "host": {"name": "shop"}, "action": "complete", "address": None,
     "message_id": 7},
    {"@timestamp": "2025-11-22T18:56:46Z", "host": {"name": "desk"}, "action": "deliver", "address": "orders",
     "message_id": 7, "bytes": 100.0},
]  # fmt: skip
NESTED = "client=host.name,event=action:{sent=transfer}"
EXPECTED = [
    (0, "shop", "transfer", "orders", "7", 100, ""),
    (500_000, "shop", "complete", "", "7", 0, ""),
    (1_000_000, "desk", "deliver", "orders", "7", 100, ""),
]


def test_json_lines_with_objects_in_them_and_without_every_key(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert ClientLog.load(path, NESTED).rows == EXPECTED
    (bit,) = read_log(path, NESTED)
    assert bit.recognised.columns.unused == ("pid",)
    assert bit.recognised.columns.guessed == {"time", "queue", "label", "size"}


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns", "text", "zone"])
def test_parquet_with_instants_of_any_unit(tmp_path, kind):
    import pyarrow as pa
    from pyarrow import parquet

    rows = [row | {"@timestamp": 1763837805_000_000 + at * 1_000_000, "host": row["host"]["name"]}
            for at, row in enumerate(ROWS)]  # fmt: skip
    table = pa.Table.from_pylist([{"pid": 1, "bytes": 0, **row} for row in rows])
    zone = "Europe/Berlin" if kind == "zone" else None
    unit = kind if kind in ("s", "ms", "us", "ns") else "us"
    instants = table["@timestamp"].cast(pa.timestamp("us")).cast(pa.timestamp(unit, zone))
    if kind == "text":
        instants = instants.cast(pa.string())
    table = table.set_column(table.schema.get_field_index("@timestamp"), "@timestamp", instants)
    parquet.write_table(table, tmp_path / "log.parquet")
    rows = ClientLog.load(tmp_path / "log.parquet", SENT_IS_TRANSFER).rows
    assert [row.ts_us for row in rows] == [0, 1_000_000, 2_000_000]
    assert [tuple(row[1:]) for row in rows] == [row[1:] for row in EXPECTED]
    if kind != "text":
        # An instant has its unit: nothing is guessed, and a unit in the map changes nothing.
        for given in ("", ":ms", ":iso"):
            bits = list(read_log(tmp_path / "log.parquet", f"time=@timestamp{given},{SENT_IS_TRANSFER}"))
            assert [row.ts_us for bit in bits for row in bit.rows] == [0, 1_000_000, 2_000_000], given
            assert not bits[0].recognised.clock.is_guess


ARROW = [
    # Units, times, and what else is changed.
    ("s", [INSTANT, INSTANT + 2, INSTANT + 3], {}),
    ("ms", [INSTANT * 1000, INSTANT * 1000 + 1, INSTANT * 1000 + 9], {}),
    ("ns", [INSTANT * 10**9 + 999, INSTANT * 10**9 + 1001, INSTANT * 10**9 + 10**9], {}),
    ("us", [0, 5, 7], {"id": [1, 1, 1], "host": [7, 8, 8], "address": ["q", None, "q"]}),
    ("us", [5, 9, 7], {}),
    ("ms", [INSTANT * 1000, INSTANT * 1000 + 1, INSTANT], {}),
    ("ms", [INSTANT * 1000, INSTANT * 1000 + 1, None], {}),
    ("s", [INSTANT, INSTANT + 1, INSTANT + 9_000_000], {}),
    ("s", [INSTANT, INSTANT + 1, INSTANT + 2], {"action": ["sent", "sent", "ping"]}),
    ("s", [INSTANT, INSTANT + 1, INSTANT + 2], {"bytes": [1.0, None, 2.5]}),
    ("s", [INSTANT, INSTANT + 1, INSTANT + 2], {"seq": [2, 0, 1]}),
]


@pytest.mark.parametrize(("unit", "times", "changed"), ARROW)
def test_parquet_is_read_as_csv_is(tmp_path, unit, times, changed):
    import csv

    import pyarrow as pa
    from pyarrow import parquet

    columns = {"when": times, "host": ["shop"] * 3, "action": ["sent"] * 3, "address": ["q"] * 3,
               "id": ["a", "b", "c"], "bytes": [1, 2, 3], **changed}  # fmt: skip
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    with (tmp_path / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    of_parquet, of_text = (ClientLog.read(tmp_path / name, MAP) for name in ("log.parquet", "log.csv"))
    assert of_parquet[0].rows == of_text[0].rows
    assert [entry[:2] for entry in of_parquet[1]] == [entry[:2] for entry in of_text[1]]
    bits = [next(read_log(tmp_path / name, MAP)) for name in ("log.parquet", "log.csv")]
    assert {bit.recognised.clock.unit for bit in bits} == {unit}
    assert bits[0].recognised == bits[1].recognised


BAD_MAPS = [
    (
        "tmie=when",
        "a column must mean one of seq, time, client, event, queue, label, size, group, got 'tmie'",
    ),
    ("time", "time must be given as time=COLUMN, got ''"),
    (
        "time=wehn",
        "there is no column 'wehn' for time; the columns are when, host, action, address, message_id",
    ),
    ("time=when,time=host", "two columns for time: 'when' and 'host'"),
    ("ts_us=when,time=host", "two columns for time: 'when' and 'host'"),
    ("client=host", "no column is known to be the time, say time=COLUMN; the columns are when, host, action"),
    ("time=when,event=action:{sent}", "words of events must be given as {WORD=EVENT,…}, got {sent}"),
    (
        "time=address,client=host,queue=host",
        "column address: times must be numbers or ISO text, such as 2026-01-31T09:30:00.5Z, got 'orders'",
    ),
]


@pytest.mark.parametrize(("given", "sentence"), BAD_MAPS, ids=[given for given, _ in BAD_MAPS])
def test_a_map_that_makes_no_sense_is_one_sentence(tmp_path, given, sentence, capsys):
    path = written(tmp_path / "log.csv", (1, 2))
    with pytest.raises(LogError) as raised:
        ClientLog.load(path, given)
    assert str(raised.value).startswith(f"log.csv: {sentence}")
    assert f"log.csv: {sentence}" in refusal(capsys, "trace", "import", path, "--map", given)


def test_columns_that_could_be_meant_or_are_foreign_say_what_helps(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("ts,@timestamp,client,event,queue,label\n1,1,p,transfer,q,p-1\n")
    with pytest.raises(LogError, match="two columns for time: 'ts' and '@timestamp'; say which, time=ts$"):
        ClientLog.load(path, "")
    with pytest.raises(LogError, match="--map explains foreign columns, in code columns="):
        ClientLog.load(path)
    assert len(ClientLog.load(path, "time=ts").rows) == 1


BAD_ROWS = [
    # Times, the row that is set aside, and why; the column has its name in the file.
    ((1763837805000, 1763837805001, 1763837805, 1763837805002), 3,
     "must be milliseconds since 1970 as in the first rows; got '1763837805', which is seconds since 1970"),
    ((1763837805000, 1763837805001, "2025-11-22T18:56:45Z"), 3,
     "must be milliseconds since 1970 as in the first rows; got '2025-11-22T18:56:45Z', which is ISO text"),
    (("2025-11-22T18:56:45Z", "2025-11-22T18:56:46Z", "2025-11-22T18:56:46"), 3,
     "must be ISO text with a zone as in the first rows; got '2025-11-22T18:56:46', which is ISO text"),
    ((1763837805, 1763837806, 1763837806 + 8 * 86_400, 1763837807), 3,
     "must be at most 7 days from the row before, got '1764528,'"),
    (("2025-11-22T18:56:45Z", "2025-11-22T18:56:46Z", "9999-12-31T23:59:59-14:00"), 3,
     "must be ISO text with a zone as in the first rows; got '9999-12-31T23:59:59-14:00'"),
    ((1763837805, 1763837806, ""), 3, "must be seconds since 1970 as in the first rows; got ''"),
]  # fmt: skip


@pytest.mark.parametrize(("times", "row", "sentence"), BAD_ROWS, ids=[sentence for *_, sentence in BAD_ROWS])
def test_a_time_that_does_not_fit_costs_its_row(tmp_path, times, row, sentence):
    log, quarantine = ClientLog.read(written(tmp_path / "log.csv", times), MAP)
    assert len(log.rows) == len(times) - 1
    ((number, column, reason, values),) = quarantine
    assert (number, column) == (row, "when")
    assert reason.startswith(sentence.replace("1764528,", str(1763837806 + 8 * 86_400)))
    assert json.loads(values)[0] == str(times[row - 1])


def test_a_clock_that_was_set_does_not_make_years(tmp_path):
    """The rows that agree first are kept; of the others each is set aside, and none is lost."""
    path = written(tmp_path / "log.csv", (INSTANT - 700_000_000, INSTANT - 699_999_999, INSTANT, INSTANT + 1))
    log, quarantine = ClientLog.read(path, MAP)
    assert [row.ts_us for row in log.rows] == [0, 1_000_000]
    assert [entry.row for entry in quarantine] == [3, 4]
    assert quarantine[0].reason.endswith("8102 days")


def test_rows_that_number_themselves_may_be_shuffled(tmp_path):
    rows = [(2, INSTANT + 2), (0, INSTANT), (1, INSTANT + 1)]
    path = tmp_path / "log.csv"
    path.write_text("n," + HEAD + "".join(f"{n},{SENT.format(time, n)}" for n, time in rows))
    log = ClientLog.load(path, MAP + ",seq=n")
    assert [(row.ts_us, row.label) for row in log.rows] == [(0, "0"), (1_000_000, "1"), (2_000_000, "2")]


def test_an_unknown_word_says_how_words_are_given(tmp_path):
    _, quarantine = ClientLog.read(written(tmp_path / "log.csv", (1, 2)), "time=when")
    assert quarantine[0].column == "action"
    assert quarantine[0].reason.endswith("got 'sent'; --map 'event=COLUMN:{WORD=EVENT,…}' explains a word")


def own(path, start, step, number=1200):
    """A log with its own columns: one client sends, each is completed at once."""
    lines = [",".join(OWN)]
    for n in range(number // 2):
        lines.append(f"{start + n * step},p,transfer,q,p-{n + 1},100,")
        lines.append(f"{start + n * step + 1},p,complete,,p-{n + 1},0,")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_log_of_three_seconds_since_1970_is_three_seconds(tmp_path, capsys):
    """It became 2.9 million events and 1.7 billion seconds."""
    path = own(tmp_path / "log.csv", INSTANT * 1_000_000, 5_000)
    words = "trace", "import", path, "--workload", tmp_path / "made.json", "--json"
    facts = json.loads(output_of(capsys, *words))
    assert (facts["rows"], facts["events"] < 20_000) == (1200, True)
    assert facts["recognised"] == {
        "columns": None, "guessed": [], "unused": [], "unit": "us", "unit_guessed": True,
        "start": "2025-11-22T18:56:45+00:00",
    }  # fmt: skip
    assert Workload.load(tmp_path / "made.json").duration == pytest.approx(2.995)


def test_own_times_from_anywhere_are_left_and_said(tmp_path, capsys):
    path = own(tmp_path / "log.csv", 5_000_000_000, 5_000, 20)
    assert ClientLog.load(path).rows[0].ts_us == 5_000_000_000
    said = output_of(capsys, "trace", "import", path)
    assert "times: the first row is 5000 s after the start, which is played too" in said
    assert ClientLog.load(path, {"time": "ts_us"}).rows[0].ts_us == 0


def test_the_import_says_what_it_guessed_and_what_that_changes(tmp_path, capsys):
    path = written(tmp_path / "log.csv", (INSTANT * 1000, INSTANT * 1000 + 3000))
    lines = output_of(capsys, "trace", "import", path, "--map", MAP).splitlines()
    assert lines[1].startswith(
        "  columns: time is 'when', client is 'host' (guessed), event is 'action', queue is"
    )
    assert lines[2] == (
        "  times: milliseconds since 1970 (guessed); 0 is 2025-11-22T18:56:45+00:00, and the log lasts 3 s "
        "(it would be 3000 s in seconds, 0.003 s in microseconds, 3e-06 s in nanoseconds: "
        "time=COLUMN:UNIT says which)"
    )
    assert "producers.shop.capacity: not seen: no row shows a completion" in lines[-1]


@pytest.fixture(scope="module")
def beginning(tmp_path_factory):
    """A log of the first rows of a recording, and the recording's workload."""
    path = write_beginning(tmp_path_factory.mktemp("own"), "overflow-despite-flow-control", 4_000)
    return path, path.with_suffix(".json")


@pytest.mark.parametrize("ending", ["csv.gz", "jsonl", "parquet"])
def test_a_recording_in_foreign_columns_is_the_same_recording(tmp_path, capsys, beginning, ending):
    """The real broker's, as another program would have written it (CM-15 for its statistics)."""
    import pyarrow as pa
    from pyarrow import parquet

    recorded, given = beginning
    log = ClientLog.load(recorded)
    names = ("at", "who", "what", "where", "id", "bytes", "set")
    rows = [(row.ts_us + INSTANT * 1_000_000, *row[1:]) for row in log.rows]
    path = tmp_path / f"log.{ending}"
    if ending == "parquet":
        table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
        parquet.write_table(table, path)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        with gzip.open(path, "wt", newline="") as file:
            csv.writer(file).writerows([names, *rows])
    columns = "time=at,client=who,event=what,queue=where,label=id,group=set"
    status = status_of("trace", "import", path, given, "--map", columns, "--json")
    foreign = json.loads(capsys.readouterr().out)
    assert status == status_of("trace", "import", recorded, given, "--json")
    own = json.loads(capsys.readouterr().out)
    shown = ("rows", "events", "statistics", "quarantine", "tolerance")
    assert [foreign[name] for name in shown] == [own[name] for name in shown]
    first = log.rows[0].ts_us
    assert [row.ts_us + first for row in ClientLog.load(path, columns).rows] == [
        row.ts_us for row in log.rows
    ]


UNDECLARED = "not seen: no log says how it was declared; thresholds unknown, it is written without limits"


def test_a_capacity_that_no_row_shows_is_not_one_in_silence(tmp_path, capsys):
    path, made = own(tmp_path / "log.csv", 0, 5_000, 40), tmp_path / "made.json"
    assert status_of("trace", "import", path, "--workload", made) == 0
    words = "not seen: it never blocked, its window may be larger; the most outstanding, 1, is written"
    assert f"producers.p.capacity: {words}" in capsys.readouterr().out
    inferred = json.loads(made.read_text())["inferred"]
    assert inferred == {"queues.q": UNDECLARED, "producers.p.capacity": words}
    first = output_of(capsys, "predict", made, path).splitlines()[0]
    assert first.startswith(
        "capacity of p: not seen in the log, so the prediction of blocks is a guess; give it with"
    )
    assert json.loads(output_of(capsys, "predict", made, path, "--json"))["capacity_not_seen"] == {"p": words}
    # Once it is given, there is nothing left to say.
    assert "not seen" not in output_of(capsys, "predict", made, path, "--capacity", "p=20")


def test_a_window_that_was_full_is_seen(tmp_path, capsys):
    path = tmp_path / "log.csv"
    rows = ["1,p,transfer,q,p-1,9,", "2,p,transfer,q,p-2,9,", "3,p,block,,,0,", "9,p,complete,,p-1,0,",
            "9,p,unblock,,,0,"]  # fmt: skip
    path.write_text("\n".join([",".join(OWN), *rows]) + "\n")
    assert status_of("trace", "import", path, "--workload", tmp_path / "made.json", "--json") == 0
    assert json.loads(capsys.readouterr().out)["inferred"] == {"queues.q": UNDECLARED}
    stated = json.loads((tmp_path / "made.json").read_text())
    assert stated["producers"][0]["capacity"] == 2
    assert stated["inferred"] == {"queues.q": UNDECLARED}


def test_a_map_in_code_is_a_mapping_or_the_same_text():
    as_text = ColumnMap.of(" time = @timestamp:ms , event=a:b:{x=transfer,y=complete}, client=c=d")
    as_mapping = ColumnMap.of(
        {"time": "@timestamp:ms", "event": "a:b:{x=transfer,y=complete}", "client": "c=d"}
    )
    assert as_text == as_mapping
    assert as_text.columns == {"time": "@timestamp", "event": "a:b", "client": "c=d"}


# A mapping that is kept, and depths that nobody recorded


def test_a_mapping_is_given_once_and_kept(tmp_path, capsys):
    path, kept = tmp_path / "app.csv", tmp_path / "app.map"
    written(path, (INSTANT * 1000, INSTANT * 1000 + 3000))
    said = refusal(capsys, "trace", "import", path, "--like", kept)
    assert f"--like: there is no {kept} yet; give --map beside it once" in said
    first = status_of("trace", "import", path, "--map", MAP, "--like", kept, "--json")
    said = capsys.readouterr().out
    assert json.loads(kept.read_text(encoding="utf-8")) == {"map": MAP}
    assert status_of("trace", "import", path, "--like", kept, "--json") == first
    assert capsys.readouterr().out == said and json.loads(said)["recognised"]
    kept.write_text("[]", encoding="utf-8")
    assert "must be a file that an import with --map has written" in refusal(
        capsys, "trace", "import", path, "--like", kept
    )


def test_what_a_log_does_not_say_of_depths_is_derived_and_marked(tmp_path, capsys):
    """The same log with its broker's reports, and without them."""
    recorded = write_beginning(tmp_path, "ring", 4_000)
    lines = recorded.read_text().splitlines(keepends=True)
    silent = tmp_path / "silent.csv"
    silent.write_text("".join(line for line in lines if ",stats," not in line), encoding="utf-8")
    given = recorded.with_name("ring.json")
    status_of("trace", "import", silent, given, "--json")
    (depth,) = json.loads(capsys.readouterr().out)["depths"].values()
    assert depth["derived"] is True and depth["max_depth"] >= depth["mean_depth"] > 0
    status_of("trace", "import", silent, given)
    assert "no reports; in the replay at most" in capsys.readouterr().out
    status_of("trace", "import", recorded, given, "--json")
    assert json.loads(capsys.readouterr().out)["depths"] == {}


# Forms that are forgiven


def read_text(path, text, *given, **more):
    path.write_text(text)
    log, quarantine = ClientLog.read(path, *given, **more)
    assert quarantine == []
    return log.rows


def test_the_hour_that_comes_twice_is_read_by_the_row_before(tmp_path):
    """In Berlin the clocks went from 3:00 back to 2:00 on 25 October 2026."""
    times = ["01:59:59", "02:30:00", "02:59:59", "02:00:01", "02:30:00", "02:59:59", "03:00:00"]
    text = HEAD + "".join(SENT.format(f"2026-10-25 {time}", n) for n, time in enumerate(times))
    rows = read_text(tmp_path / "log.csv", text, MAP, zone="Europe/Berlin")
    assert [row.ts_us // 1_000_000 for row in rows] == [0, 1801, 3600, 3602, 5401, 7200, 7201]


def test_a_zone_that_is_none_is_refused(tmp_path, capsys):
    path = written(tmp_path / "log.csv", ("2026-10-25 01:00:00", "2026-10-25 01:00:01"))
    said = refusal(capsys, "trace", "import", path, "--map", MAP, "--zone", "Berlin/Europe")
    assert "such as Europe/Berlin, or an offset such as +01:00; got 'Berlin/Europe'" in said


@pytest.mark.parametrize("separator", ["xx", '"', "\n"])
def test_a_separator_that_is_none_is_refused(tmp_path, capsys, separator):
    path = written(tmp_path / "log.csv", ("2026-10-25 01:00:00",))
    said = refusal(capsys, "trace", "import", path, "--map", MAP, "--separator", separator)
    assert f"must be a character, or comma, semicolon, tab, bar; got {separator!r}" in said


def test_a_zone_may_be_an_offset(tmp_path):
    path = written(tmp_path / "log.csv", ("2026-10-25 01:00:00",))
    start = ClientLog.load(path, columns=MAP, zone="+02:30").start_us
    assert start == datetime(2026, 10, 24, 22, 30, tzinfo=UTC).timestamp() * 1_000_000


def test_date_and_time_in_two_columns_and_a_path_into_json_text(tmp_path):
    value = json.dumps({"who": {"name": "shop"}, "id": 7})
    (tmp_path / "log.tsv").write_text(
        f"date\ttime\tevent\tqueue\tvalue\n2026-10-25\t01:00:00\ttransfer\tq\t{value!s}\n".replace(
            value, '"' + value.replace('"', '""') + '"'
        )
    )
    log = ClientLog.load(tmp_path / "log.tsv", "client=value.who.name,label=value.id")
    assert log.rows == [(0, "shop", "transfer", "q", "7", 0, "")]
    assert ClientLog.load(tmp_path / "log.tsv", "time=date+time,client=value.who.name,label=value.id") == log


def test_a_rounded_time_is_read_with_a_warning(tmp_path):
    path = written(tmp_path / "log.csv", ("1.7E+12", "1.7E+12", "1.8E+12"))
    bits = read_log(path, MAP)
    assert "warning: 1.7E+12 is a rounded time" in next(bits).recognised.sentences(0)[1]


@pytest.mark.parametrize("ending", ["log", "txt", "json", "ndjson", "csv"])
def test_the_content_tells_the_kind_of_file(tmp_path, ending):
    row = dict(zip(OWN, (5, "p", "transfer", "q", "p-1", 9, ""), strict=True))
    expected = [tuple(row.values())]
    assert read_text(tmp_path / f"a.{ending}", json.dumps(row) + "\n") == expected
    if ending not in ("json", "ndjson"):
        assert read_text(tmp_path / f"b.{ending}", ",".join(OWN) + "\n5,p,transfer,q,p-1,9,\n") == expected
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        (tmp_path / f"c.{ending}").write_bytes((json.dumps(row) + "\n").encode(encoding))
        assert ClientLog.load(tmp_path / f"c.{ending}").rows == expected
