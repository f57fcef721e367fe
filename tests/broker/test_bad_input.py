"""Commands that cannot be carried out: what they say, and that they change nothing but their own session."""

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import BYTES, INFINITE, MESSAGES, Bench, refused, sized, through_json, visible

from qflow.broker import Broker, BrokerOptions, Message, MessageStore, Session, events
from qflow.broker.errors import AmqpException, SessionDetached, StartupError

VICTIM = "victim"


def busy_bench() -> Bench:
    """A broker where the victim session has a part in everything there is."""
    bench = Bench()
    bench.declare("q", flow_stop_count=1, alternate="amq.fanout")
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
    pytest.param(declare(arguments={"qpid.shared_msg_group": 1}), 542, id="MG-01 a bad combination"),
    pytest.param(declare(arguments={"qpid.policy_type": 3}), 542, id="LP-04 a policy that is no string"),
    pytest.param(declare(alternate_exchange="nowhere"), 404, id="EX-03 no such alternate"),
    pytest.param(declare("nosuch", passive=True), 404, id="CF-04 passive"),
    pytest.param(declare("foreign", exclusive=True), 405, id="CN-23 somebody else's"),
    pytest.param(declare("other", exclusive=True), 405, id="CN-23 one that is in use"),
    pytest.param(lambda s: s.queue_delete("nosuch"), 404, id="QT-21 unknown"),
    pytest.param(lambda s: s.queue_delete("foreign"), 405, id="QT-21 CN-23 foreign"),
    pytest.param(lambda s: s.queue_delete("q", if_empty=True), 406, id="QT-21 not empty"),
    pytest.param(lambda s: s.queue_delete("other", if_unused=True), 406, id="QT-21 in use"),
    pytest.param(lambda s: s.queue_purge("nosuch"), 404, id="QT-22 unknown"),
    pytest.param(lambda s: s.queue_purge(""), 531, id="QT-22 no name"),
    pytest.param(lambda s: s.exchange_declare("y", "star"), 404, id="EX-03 unknown type"),
    pytest.param(lambda s: s.exchange_declare("x", "topic"), 530, id="EX-03 other type"),
    pytest.param(lambda s: s.exchange_declare("amq.own", "topic"), 530, id="EX-03 reserved"),
    pytest.param(lambda s: s.exchange_delete("alt"), 530, id="EX-03 in use as alternate"),
    pytest.param(lambda s: s.exchange_delete(""), 542, id="EX-02 the default exchange"),
    pytest.param(lambda s: s.exchange_bind("nosuch", "x"), 404, id="EX-03 bind an unknown queue"),
    pytest.param(lambda s: s.exchange_bind("foreign", "x"), 405, id="EX-03 bind a foreign queue"),
    pytest.param(lambda s: s.exchange_bind("q", "amq.match"), 541, id="EX-03 bind without x-match"),
    pytest.param(lambda s: s.exchange_unbind("q", ""), 542, id="EX-02 unbind from the default exchange"),
    pytest.param(lambda s: s.message_subscribe("nosuch", "t"), 404, id="CN-02 subscribe to nothing"),
    pytest.param(lambda s: s.message_subscribe("q", "groups"), 530, id="CN-02 a tag in use"),
    pytest.param(lambda s: s.message_subscribe("foreign", "t"), 405, id="CN-02 a foreign queue"),
    pytest.param(lambda s: s.message_cancel("nosuch"), 404, id="CN-02 cancel nothing"),
    pytest.param(lambda s: s.message_stop("nosuch"), 404, id="CN-02 stop nothing"),
    pytest.param(lambda s: s.message_flow("groups", 2, 1), 542, id="CN-02 a bad unit"),
    pytest.param(lambda s: s.message_set_flow_mode("groups", 2), 542, id="CN-02 a bad mode"),
    pytest.param(lambda s: s.message_flow("groups", MESSAGES, -1), 542, id="CN-04 negative credit"),
    pytest.param(lambda s: s.message_flow("groups", BYTES, INFINITE + 1), 542, id="CN-04 33 bits of credit"),
    pytest.param(lambda s: s.tx_commit(), 503, id="CF-08 a commit without select"),
    pytest.param(lambda s: s.tx_rollback(), 503, id="CF-08 a rollback without select"),
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
        pytest.param({"headers": {5: "a"}}, TypeError, id="DQ-07 a header whose name is no text"),
        pytest.param({"headers": {"a": 1 << 64}}, ValueError, id="DQ-07 a header of 65 bits"),
        pytest.param({"headers": {"a": -(1 << 63) - 1}}, ValueError, id="DQ-07 a header of 64 bits below 0"),
        pytest.param({"headers": {"a": "\ud800"}}, ValueError, id="DQ-07 half a character in a header"),
        pytest.param({"headers": {"k" * 256: 1}}, ValueError, id="DQ-07 a header with a name over 255 bytes"),
        pytest.param({"headers": [("a", 1)]}, TypeError, id="headers that are no map"),
        pytest.param({"content_size": float("nan")}, TypeError, id="DQ-05 no number of bytes"),
        pytest.param({"content_size": 1 << 64}, ValueError, id="DQ-05 a size of 65 bits"),
        pytest.param({"ttl": float("nan")}, TypeError, id="QT-07 no number of milliseconds"),
        pytest.param({"ttl": 1.5}, TypeError, id="QT-07 half a millisecond"),
        pytest.param({"ttl": 1 << 64}, ValueError, id="QT-07 a time to live of 65 bits"),
        pytest.param({"priority": 4.0}, TypeError, id="QT-04 a priority that is no int"),
        pytest.param({"routing_key": 5}, TypeError, id="EX-03 a number for a key"),
        pytest.param({"routing_key": "\ud800"}, ValueError, id="EX-03 half a character"),
        pytest.param({"durable": "yes"}, TypeError, id="CM-12 a text for a flag"),
        pytest.param({"timestamp": "now"}, TypeError, id="DQ-05 a text for a time"),
        pytest.param({"timestamp": -1}, ValueError, id="DQ-05 a time before all times"),
        pytest.param({"message_id": "7"}, TypeError, id="DQ-07 a message id that is no UUID"),
        pytest.param({"correlation_id": 7}, TypeError, id="DQ-07 a number for a correlation id"),
        pytest.param({"content_type": "t" * 256}, ValueError, id="DQ-07 a content type over 255 bytes"),
        pytest.param({"user_id": b"u"}, TypeError, id="DQ-07 bytes for a user id"),
        pytest.param({"app_id": "a" * 65_536}, ValueError, id="DQ-07 an app id over 65535 bytes"),
        pytest.param({"label": 5}, TypeError, id="a number for a label"),
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
    with pytest.raises(ValueError, match=r"at most 255 bytes; got 25\d"):
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


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda broker: broker.session(5), TypeError),
        (lambda broker: broker.session("s", b"line"), TypeError),
        (lambda broker: broker.advance(float("nan")), TypeError),
        (lambda broker: broker.advance(1.5), TypeError),
        (lambda broker: broker.advance(None), TypeError),
        (lambda broker: broker.advance(1 << 63), ValueError),
    ],
)
def test_what_a_broker_itself_is_given(act, error):
    """CM-01: names are texts and times whole microseconds, or nothing happens."""
    bench = busy_bench()
    before = bench.broker.state_hash()
    with pytest.raises(error):
        act(bench.broker)
    assert bench.broker.state_hash() == before


def test_the_callers_headers_stay_the_callers():
    """MG-03, QT-01: a message is what it was when it was sent."""
    bench = Bench()
    bench.declare("q")
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


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"message_size": "characters"}, "message_size: got 'characters', allowed are 'encoded', 'content'"),
        ({"wake_up": "never"}, "wake_up: got 'never', allowed are 'faithful', 'eager'"),
    ],
    ids=["DQ-09 message_size", "MG-13 wake_up"],
)
def test_options_of_the_model(options, named):
    """DQ-09, MG-13: the message names the option, what was given and what is allowed."""
    with pytest.raises(StartupError) as raised:
        BrokerOptions(**options)
    assert str(raised.value) == named


# Mistakes in Python: the command did not happen

MISTAKES = [
    pytest.param(lambda s: s.message_accept(5), id="a number for numbers"),
    pytest.param(lambda s: s.message_accept(["0"]), id="a text for a number"),
    pytest.param(lambda s: s.message_release([0], set_redelivered="yes"), id="a text for a flag"),
    pytest.param(lambda s: s.session_completed([None]), id="nothing for a number"),
    pytest.param(lambda s: s.message_transfer(7), id="no message"),
    pytest.param(
        lambda s: s.message_transfer(Message(1, routing_key="q"), b"amq.fanout"), id="bytes for a name"
    ),
    pytest.param(lambda s: s.message_transfer(Message(1, routing_key="q"), sync=[1]), id="a list for sync"),
    pytest.param(lambda s: s.message_cancel([]), id="a list for a tag"),
    pytest.param(lambda s: s.fetch(5), id="CN-09 a number for a tag"),
    pytest.param(lambda s: s.message_flow("groups", 0, 2.5), id="half a message of credit"),
    pytest.param(lambda s: s.message_flow("groups", 0), id="an argument too few"),
    pytest.param(lambda s: s.queue_delete("q", queue="q"), id="an argument twice"),
    pytest.param(lambda s: s.queue_delete("q", by_force=True), id="an argument it has not"),
    pytest.param(lambda s: s.queue_declare("new", {"unknown": object()}), id="an object in a map"),
    pytest.param(lambda s: s.queue_declare("new", {5: 1}), id="a number as a key"),
    pytest.param(lambda s: s.exchange_bind("q", "amq.fanout", None), id="EX-03 no key at all"),
]


@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize("act", MISTAKES)
def test_a_mistake_is_no_command(act, is_observed):
    """CM-01: nothing changes, nothing is shown, and the number is the next command's, observed or not."""
    bench = busy_bench()
    bench.broker.observe(None)
    events: list = []
    if is_observed:
        bench.broker.observe(events.append)
    before, session = bench.broker.state_hash(), bench.session(VICTIM)
    with pytest.raises((TypeError, ValueError)):
        act(session)
    assert bench.broker.state_hash() == before
    assert events == []
    number = session.completions.next_number
    session.queue_query("q")
    assert number in session.completed


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
    bench = Bench()
    bench.declare("q")
    bench.session("c").message_subscribe("q", "t", arguments={"x-apache-selector": expression})
    bench.session("c").fetch("t")
    bench.send("q")
    bench.session("c").fetch("t")
    assert bench.session("c").consuming.records


LEGAL = {
    "queue": ["q", "other"],
    "tag": ["groups", "window"],
    "exchange": ["amq.fanout", "x", ""],
    "key": ["k"],
    "transfers": [[0], [0, 1]],
    "arguments": [{}, {"qpid.max_count": 5}],
    "message": [Message(1, routing_key="q")],
    "type": ["topic"],
    "alternate_exchange": ["", "alt"],
}
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-2, 1 << 70)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=3)
)
JUNK = st.recursive(
    PLAIN | st.builds(object),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=2),
    max_leaves=5,
)
METHODS = [name for name in (kind.replace(".", "_") for kind in events.COMMANDS) if hasattr(Session, name)]
STATE = busy_bench().broker.snapshot()


@given(data=st.data())
@settings(max_examples=250, deadline=None, derandomize=True, database=None)
def test_whatever_python_can_say_is_a_command_or_changes_nothing(data):
    """CM-01, LP-06: a command, or a refusal of which the session dies, or nothing at all."""
    broker = Broker.restore(STATE)
    seen: list = []
    broker.observe(seen.append)
    session = broker.sessions[VICTIM]
    method = getattr(session, data.draw(st.sampled_from(METHODS)))
    given: dict = {}
    for name, parameter in inspect.signature(method).parameters.items():
        legal = LEGAL.get(name, [parameter.default if parameter.default is not parameter.empty else 0])
        if data.draw(st.integers(0, 9)):
            given[name] = data.draw(st.one_of(st.sampled_from(legal), st.sampled_from(legal), JUNK))
    before = broker.state_hash()
    try:
        method(**given)
    except AmqpException:
        assert not session.is_attached
    except Exception:
        assert broker.state_hash() == before
        assert seen == []
    else:
        assert broker.state_hash() == Broker.restore(broker.snapshot()).state_hash()
