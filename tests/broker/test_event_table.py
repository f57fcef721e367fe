"""EventTable: a sequence of events like any other, whoever put them in and whenever somebody looks."""

import pytest
from support import Bench

from qflow.broker.events import Event, EventTable
from qflow.trace.schema import Trace, _encode_values, encode_detail

EVENTS = [
    Event(0, "session.detach", session="p", detail={}),
    Event(0, "idle", queue="q", link="c::t"),
    Event(5, "completed", session="p", detail={"command": 3}),
    Event(7, "dequeued", queue="q", message="p-1", size=9, detail={"position": 1, "reason": "ring"}),
]


def filled(looks: bool) -> EventTable:
    table = EventTable(EVENTS[:1])
    for event in EVENTS[1:]:
        table.append(event)
        if looks:
            assert table[-1] == event
    return table


@pytest.mark.parametrize("looks", [False, True])
def test_it_is_a_sequence_whenever_somebody_looks(looks):
    assert len(filled(looks)) == len(EVENTS)
    assert list(filled(looks)) == EVENTS
    assert list(filled(looks).rows()) == [tuple(event) for event in EVENTS]
    assert filled(looks)[1:3] == EVENTS[1:3]
    assert filled(looks) == EventTable(EVENTS)
    assert filled(looks) != EventTable(EVENTS[:-1])


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("name", Event._fields)
def test_a_column_is_one_field_of_all(looks, name):
    assert filled(looks).column(name) == [getattr(event, name) for event in EVENTS]


@pytest.mark.parametrize("looks", [False, True])
def test_a_trace_of_it_has_each_detail_as_text(looks):
    trace = Trace()
    trace.extend(filled(looks))
    assert list(trace.detail) == [encode_detail(event.detail) for event in EVENTS]


@pytest.mark.parametrize("looks_after", range(len(EVENTS) + 1))
@pytest.mark.parametrize("start", range(len(EVENTS) + 1))
def test_events_are_told_from_one_on(looks_after, start):
    table = EventTable()
    for number, event in enumerate(EVENTS):
        if number == looks_after:
            assert list(table) == EVENTS[:number]
        table.append(event)
    told = list(table.tuples(start))
    assert [row[:8] for row in told] == [tuple(event)[:8] for event in EVENTS[start:]]
    assert [_encode_values(*row[8:]) for row in told] == [
        encode_detail(event.detail) for event in EVENTS[start:]
    ]


@pytest.mark.parametrize("looks", [False, True])
def test_the_last_events_can_be_forgotten(looks):
    table = filled(looks)
    del table[2:]
    table.append(EVENTS[3])
    assert list(table) == [*EVENTS[:2], EVENTS[3]]


def test_a_table_and_a_list_are_told_the_same():
    table, events = EventTable(), []
    for observer in (table, events.append):
        bench = Bench()
        bench.broker.observe(observer)
        bench.declare("q", flow_stop_count=2)
        bench.send("q", 3)
        bench.read("q").accept()
    assert list(table) == events
    assert [list(event.detail or ()) for event in table] == [list(event.detail or ()) for event in events]


def test_a_trace_that_grows_has_all_rows_in_every_column():
    trace, table = Trace(), filled(False)
    for event in EVENTS[:2]:
        trace.append(event)
    assert (trace.kind, list(trace.time)) == (["session.detach", "idle"], [0, 0])
    trace.extend(table)
    assert trace.kind == [event.kind for event in (*EVENTS[:2], *EVENTS)]
    assert list(trace.time) == [0, 0, 0, 0, 5, 7]
    assert trace.row(-1) == ("run", 5, 7, "dequeued", "q", "", "", "p-1", 9, "", trace.detail[-1])
    assert list(table) == EVENTS, "a row that is read changes nothing of the table it came from"


def test_rows_cut_off_a_trace_are_plain_and_can_be_put_back():
    trace, whole = Trace(), Trace()
    for some in (trace, whole):
        some.extend(filled(False))
    cut = trace.cut(3)
    assert {type(cell) for cell in cut} <= {int, str, tuple, type(None)}
    assert (trace.kind, list(trace.seq)) == (["dequeued"], [3])
    back = Trace()
    back.put(cut)
    assert [*back.rows(), *trace.rows()] == list(whole.rows())


def test_a_prompt_shows_the_first_ten():
    events = [Event(time, "tick") for time in range(12)]
    assert repr(EventTable(events[:10])) == repr(events[:10])
    assert repr(EventTable(events)) == repr(events[:10])[:-1] + ", ...: 12 events]"
