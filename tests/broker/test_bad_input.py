"""Commands that cannot be carried out: what they say, and that they change nothing but their own session."""

import pytest
from support import BYTES, INFINITE, Bench, bench_with, refused, sized, through_json, visible

from qflow.broker import Broker, Message, MessageStore
from qflow.broker.errors import SessionDetached

VICTIM = "victim"


def busy_bench() -> Bench:
    """A broker where the victim session has a part in everything there is."""
    bench = bench_with("q", flow_stop_count=1, alternate="amq.fanout")
    bench.declare("other")
    bench.declare("full", max_count=1, flow_stop_count=0)
    bench.declare("own", by=VICTIM, exclusive=True)
    bench.declare("foreign", by="owner", exclusive=True)
    bench.declare("auto", auto_delete=True)
    bench.group("grouped")
    bench.bind("other", "amq.fanout")
    bench.exchange("alt", "fanout")
    bench.exchange("x", "direct", alternate="alt")
    bench.send("q", 3, by=VICTIM)
    bench.send("full")
    bench.send_groups("grouped", "A-1 B-2 A-3")
    bench.send("other", 2)
    session = bench.session(VICTIM)
    session.exchange_bind("own", "amq.direct", "k", {"x-scope": "session"})
    bench.read("grouped", VICTIM, "groups", messages=2)
    bench.read("auto", VICTIM, "auto")
    bench.read("other", VICTIM, "window", messages=1, mode=1)
    bench.read("grouped", "another", "groups")
    bench.read("other", "waiting", "w")
    session.execution_sync()
    assert bench.held(VICTIM) == "victim-2 victim-3"
    return bench


def transfer(exchange: str = "", key: str = "q"):
    return lambda s: s.message_transfer(sized(100, exchange, routing_key=key), exchange)


def declare(queue: str = "new", arguments: dict | None = None, **more: object):
    return lambda s: s.queue_declare(queue, arguments, **more)


ILLEGAL = [
    pytest.param(transfer("nowhere"), 404, id="EX-03 an unknown exchange"),
    pytest.param(declare(arguments={"qpid.max_count": "x"}), 542, id="CF-03 a bad conversion"),
    pytest.param(declare(arguments={"qpid.flow_stop_size": 1000}), 542, id="FC-07 bad thresholds"),
    pytest.param(declare(alternate_exchange="nowhere"), 404, id="EX-03 no such alternate"),
    pytest.param(declare("foreign", exclusive=True), 405, id="CN-23 somebody else's"),
    pytest.param(lambda s: s.queue_delete("q", if_empty=True), 406, id="QT-21 not empty"),
    pytest.param(lambda s: s.queue_purge(""), 531, id="QT-22 no name"),
    pytest.param(lambda s: s.exchange_declare("y", "star"), 404, id="EX-03 unknown type"),
    pytest.param(lambda s: s.exchange_delete("alt"), 530, id="EX-03 in use as alternate"),
    pytest.param(lambda s: s.exchange_bind("foreign", "x"), 405, id="EX-03 bind a foreign queue"),
    pytest.param(lambda s: s.exchange_bind("q", "amq.match"), 541, id="EX-03 bind without x-match"),
    pytest.param(lambda s: s.message_subscribe("q", "groups"), 530, id="CN-02 a tag in use"),
    pytest.param(lambda s: s.message_stop("nosuch"), 404, id="CN-02 stop nothing"),
    pytest.param(lambda s: s.message_set_flow_mode("groups", 2), 542, id="CN-02 a bad mode"),
    pytest.param(lambda s: s.message_flow("groups", BYTES, INFINITE + 1), 542, id="CN-04 33 bits of credit"),
    pytest.param(lambda s: s.tx_commit(), 503, id="CF-08 a commit without select"),
]


@pytest.mark.parametrize(("act", "code"), ILLEGAL)
def test_like_closing_the_session(act, code):
    """LP-06, CN-17, CM-09: the broker is exactly as if the session had been closed, the connection lives."""
    bench = busy_bench()
    twin = through_json(bench.broker)
    with refused(code):
        act(bench.session(VICTIM))
    twin.sessions[VICTIM].close()
    assert not bench.session(VICTIM).is_attached
    assert visible(bench.broker, without=VICTIM) == visible(twin, without=VICTIM)


def test_what_a_full_queue_adds_to_that():
    """LP-05, LP-08: 506 leaves its traces: the overflow is counted, other queues keep their copies."""
    bench = busy_bench()
    twin = through_json(bench.broker)
    bench.bind("full", "amq.fanout")
    twin.sessions["ctl"].exchange_bind("full", "amq.fanout")
    with refused(506):
        bench.session(VICTIM).message_transfer(sized(100, "amq.fanout", label="new"), "amq.fanout")
    twin.sessions[VICTIM].close()
    seen, expected = visible(bench.broker, VICTIM), visible(twin, VICTIM)
    assert bench.stat("full").discardsOverflow == 1
    assert "new" in [event.message for event in bench.seen("enqueued") if event.queue == "other"]
    for name in ("q", "own", "auto", "grouped"):
        assert seen["queues"].get(name) == expected["queues"].get(name)


COMMANDS = [
    lambda s: s.message_transfer(Message(1, routing_key="q")),
    lambda s: s.message_subscribe("q", "t"),
    lambda s: s.message_flow("t", 0, 1),
    lambda s: s.message_accept([0]),
    lambda s: s.message_release([0]),
    lambda s: s.session_completed([0]),
    lambda s: s.session_flush(),
    lambda s: s.execution_sync(),
    lambda s: s.fetch("t"),
    lambda s: s.queue_declare("new"),
    lambda s: s.queue_purge("q"),
    lambda s: s.exchange_bind("q", "amq.fanout"),
    lambda s: s.tx_select(),
]


@pytest.mark.parametrize("end", ["closed", "died"])
def test_commands_to_a_session_that_is_gone(end):
    """RF-25: they have no effect; the caller is told which session and which command."""
    bench = busy_bench()
    session = bench.session(VICTIM)
    if end == "closed":
        session.close()
    else:
        with refused(404):
            session.message_cancel("nosuch")
    before = bench.broker.state_hash()
    for number, command in enumerate(COMMANDS):
        with pytest.raises(SessionDetached, match=VICTIM):
            command(session)
        assert bench.broker.state_hash() == before, number
    session.close()
    assert bench.broker.state_hash() == before


def test_a_name_in_use():
    """LP-06: one session of a name at a time; a new one may take the name of one that is gone."""
    bench = Bench()
    first = bench.broker.session("s")
    before = bench.broker.state_hash()
    with refused(530):
        bench.broker.session("s")
    assert bench.broker.state_hash() == before
    first.close()
    assert bench.broker.session("s") is not first


def test_looking_for_a_queue_that_is_not_there():
    """QT-21: 404, and nothing changes."""
    bench = Bench()
    before = bench.broker.state_hash()
    with refused(404, "Queue not found: nosuch"):
        bench.broker.queue("nosuch")
    assert bench.broker.state_hash() == before


def test_time_does_not_go_back():
    bench = Bench()
    bench.broker.advance(10)
    with pytest.raises(ValueError, match="10 us, got 9 us"):
        bench.broker.advance(9)
    with pytest.raises(ValueError, match="time must be 0 to"):
        bench.broker.advance(1 << 63)
    bench.broker.advance(10)
    assert bench.broker.now == 10


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        pytest.param({"content_size": -1}, ValueError, id="a negative amount of content"),
        pytest.param({"ttl": -1}, ValueError, id="a negative time to live"),
        pytest.param({"priority": 256}, ValueError, id="a priority over 255"),
        pytest.param({"priority": -1}, ValueError, id="a negative priority"),
        pytest.param({"routing_key": "k" * 256}, ValueError, id="EX-03 a routing key over 255 bytes"),
        pytest.param({"routing_key": "ä" * 128}, ValueError, id="EX-03 bytes, not characters"),
        pytest.param({"headers": {"a": {1, 2}}}, TypeError, id="DQ-07 a header that has no encoding"),
        pytest.param({"headers": {"a": [object()]}}, TypeError, id="DQ-07 a list that has no encoding"),
        pytest.param({"headers": {"a": 1 << 64}}, ValueError, id="DQ-07 a header of 65 bits"),
        pytest.param({"headers": {"a": -(1 << 63) - 1}}, ValueError, id="DQ-07 a header of 64 bits below 0"),
        pytest.param({"headers": {"k" * 256: 1}}, ValueError, id="DQ-07 a header with a name over 255 bytes"),
        pytest.param({"content_size": 1 << 64}, ValueError, id="DQ-05 a size of 65 bits"),
        pytest.param({"ttl": 1 << 64}, ValueError, id="QT-07 a time to live of 65 bits"),
        pytest.param({"routing_key": "\ud800"}, ValueError, id="EX-03 half a character"),
        pytest.param({"timestamp": -1}, ValueError, id="DQ-05 a time before all times"),
        pytest.param({"content_type": "t" * 256}, ValueError, id="DQ-07 a content type over 255 bytes"),
        pytest.param({"app_id": "a" * 65_536}, ValueError, id="DQ-07 an app id over 65535 bytes"),
        pytest.param({"content": object()}, TypeError, id="content that no snapshot holds"),
    ],
)
@pytest.mark.parametrize("counted", ["encoded", "content"])
def test_messages_that_cannot_be(properties, error, counted):
    """EX-03, DQ-07, DQ-09: the client's library refuses them; the broker never sees them."""
    bench = Bench(message_size=counted)
    bench.declare("q")
    session = bench.session("p")
    before = bench.broker.state_hash()
    with pytest.raises(error):
        session.message_transfer(Message(**{"routing_key": "q", **properties}))
    assert bench.broker.state_hash() == before


class Text(str):
    """A text of a kind of its own, as NumPy's are."""


def test_a_text_of_another_kind_is_kept_as_a_plain_one():
    """CF-04: so that a restored broker shows the same."""
    bench = Bench()
    session = bench.broker.session(Text("s"), Text("line"))
    session.queue_declare(Text("q"))
    session.message_subscribe(Text("q"), Text("t"))
    session.message_transfer(Message(1, routing_key=Text("q"), label=Text("m")), Text("amq.direct"))
    shown = [
        value for event in bench.events for value in (event.queue, event.session, event.link, event.message)
    ]
    assert {type(value) for value in shown} == {str}
    assert type(session.name) is str and type(session.connection.name) is str


LONG = "n" * 256
NAMED = [
    lambda s: s.exchange_bind("q", "amq.direct", LONG),
    lambda s: s.exchange_unbind("q", "amq.direct", LONG),
    lambda s: s.queue_declare(LONG),
    lambda s: s.queue_declare("ä" * 128),
    lambda s: s.queue_declare("new", alternate_exchange=LONG),
    lambda s: s.queue_delete(LONG),
    lambda s: s.exchange_declare(LONG, "fanout"),
    lambda s: s.exchange_declare("new", LONG),
    lambda s: s.message_subscribe("q", LONG),
    lambda s: s.message_transfer(Message(1, routing_key="q"), LONG),
]


@pytest.mark.parametrize("act", NAMED)
def test_names_that_cannot_be(act):
    """EX-03, CF-04: over 255 bytes; the client's library refuses them."""
    bench = busy_bench()
    before = bench.broker.state_hash()
    with pytest.raises(ValueError, match=r"at most 255 bytes, got 25\d"):
        act(bench.session(VICTIM))
    assert bench.broker.state_hash() == before


@pytest.mark.parametrize("name", ["\ud800", "ok\udfff"])
def test_names_that_no_encoding_has(name):
    """CF-04: half a character can be written in Python, but not sent."""
    bench = busy_bench()
    before = bench.broker.state_hash()
    for act in (
        lambda: bench.ctl.queue_declare(name),
        lambda: bench.ctl.message_transfer(Message(1), name),
        lambda: bench.broker.management.create("queue", name),
        lambda: bench.broker.session(name),
        lambda: bench.broker.session("new", name),
    ):
        with pytest.raises(ValueError, match="UTF-8"):
            act()
        assert bench.broker.state_hash() == before


def test_the_callers_headers_stay_the_callers():
    """MG-03, QT-01: a message is what it was when it was sent."""
    bench = bench_with("q")
    bench.group("grouped")
    headers = {"g": "A"}
    bench.send("q", headers=headers)
    before = bench.broker.state_hash()
    headers["g"] = "B"
    assert bench.broker.state_hash() == before
    bench.broker.management.queueMoveMessages("q", "grouped")
    assert bench.owners("grouped") == {"A": (1, "")}


def test_the_callers_arguments_stay_the_callers():
    """FC-12: a queue's settings are for life."""
    bench = Bench()
    arguments = {"qpid.max_count": 3}
    bench.ctl.queue_declare("q", arguments)
    before = bench.broker.state_hash()
    arguments["qpid.max_count"] = 1
    assert bench.broker.state_hash() == before
    assert bench.broker.queue("q").settings.arguments == {"qpid.max_count": 3}


@pytest.mark.parametrize("error", [RecursionError, AttributeError, MemoryError])
def test_any_other_exception_takes_the_number_back(error):
    """CM-01: whatever a command raises, it leaves no hole in the numbers for ever."""

    class Failing(MessageStore):
        def flush(self) -> None:
            raise error

    broker = Broker(store=Failing())
    session = broker.session("s")
    with pytest.raises(error):
        session.execution_sync()
    number = session.completions.next_number
    session.queue_query("q")
    assert number in session.completed and number == 0


@pytest.mark.parametrize("opening", ["(", "NOT (", "-(", "1 + ("])
def test_qt_16_a_selector_nested_too_deeply(opening):
    """QT-16: like any selector that cannot be parsed, it closes the connection."""
    bench = busy_bench()
    expression = opening * 300 + "1" + ")" * 300
    with refused(501, "Illegal selector: '(': more than 32 nested parentheses"):
        bench.session(VICTIM).message_subscribe("q", "deep", arguments={"x-apache-selector": expression})
    assert not bench.session(VICTIM).is_attached
    assert bench.session("another").is_attached
    assert bench.stat("q").consumerCount == 0


@pytest.mark.parametrize(
    "expression", ["NOT " * 5000 + "TRUE", "-" * 5000 + "1 = 1", "1" + "+1" * 5000 + "=5001"]
)
def test_qt_16_a_long_selector_is_no_deep_one(expression):
    """QT-16: what does not nest may be of any length, and is evaluated for every message."""
    bench = bench_with("q")
    bench.session("c").message_subscribe("q", "t", arguments={"x-apache-selector": expression})
    bench.session("c").fetch("t")
    bench.send("q")
    bench.session("c").fetch("t")
    assert bench.session("c").consuming.records
