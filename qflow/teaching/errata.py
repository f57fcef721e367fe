"""Errata: sentences of the documents, some of them wrong, and the experiment that decides about each.

``data/errata.csv`` has the sentences, page by page: in our words or as they are quoted in the rule book, what
is true instead, and the id of the correction (``X-…``); a sentence with ``T-…`` is true. An *experiment*
tries a sentence on the engine: each step says what was done, what was seen, and what has to be seen if the
correction is right. So a page can be read, played as a game (:mod:`qflow.teaching.errata_widget`) and checked
as a test. In the game a true sentence that is marked costs more than a mistake brings (:func:`score_page`),
so that it is not enough to mark all.

The engine may be the judge since it agrees with recordings of the real broker, see
:func:`qflow.teaching.beside`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import qflow.broker
from qflow.broker import Broker, BrokerOptions, Message, RangeSet
from qflow.broker.errors import AmqpException, StartupError
from qflow.broker.events import Event
from qflow.broker.settings import Argument
from qflow.configuration.notations import read_any
from qflow.kit import RefusalError, kit_path
from qflow.table import Table
from qflow.teaching.trial import Reader, send
from qflow.windows import make_window
from qflow.wording import format_count
from qflow.workload import Producer, Workload, simulate

PAGES = {
    "states": "On and off",
    "names": "Names and units",
    "configuration": "Configuration",
    "clients": "Producers and full queues",
    "groups": "Groups",
    "history": "History and neighbours",
}
"""Pages by name, with their headings, in the order of the data."""

Step = tuple[str, object, object]
"""What was done, what was seen, and what has to be seen."""

_EXPERIMENTS: dict[str, Callable[[], Iterator[Step]]] = {}


class _Observation(NamedTuple):
    """One step of an experiment."""

    tried: str
    seen: str
    is_right: bool


@dataclass(frozen=True, slots=True)
class Erratum:
    """A sentence of a document, and what is true.

    >>> first = errata("states")[1]
    >>> first.id, first.is_wrong, first.is_checked
    ('X-01', True, True)
    >>> for step in first.observe():
    ...     print(f"{step.tried}: {step.seen}")
    0 messages on the queue: OFF
    900 messages on the queue: OFF
    901 messages on the queue: ON
    """

    page: str
    id: str
    document: str
    sentence: str
    truth: str

    @property
    def is_wrong(self) -> bool:
        """Whether it needs a correction."""
        return self.id.startswith("X")

    def observe(self) -> list[_Observation]:
        """Try the sentence on the engine, and return what was seen at each step."""
        return [
            _Observation(tried, str(seen), seen == expected)
            for tried, seen, expected in _EXPERIMENTS[self.id]()
        ]

    @property
    def is_checked(self) -> bool:
        """Whether the engine shows what the correction says, in each step."""
        return all(step.is_right for step in self.observe())


@cache
def _read_errata() -> tuple[Erratum, ...]:
    path = kit_path("data") / "errata.csv"
    return tuple(Erratum(**row) for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def errata(page: str | None = None) -> list[Erratum]:
    """Return the sentences of a page, or of all pages.

    Raises:
        RefusalError: If there is no such page.

    >>> len([one for one in errata() if one.is_wrong]), len(errata("groups"))
    (31, 7)
    """
    if page is not None and page not in PAGES:
        raise RefusalError(f"there is no page {page!r}; there are {', '.join(PAGES)}")
    return [one for one in _read_errata() if page in (None, one.page)]


def describe_rule(page: str) -> str:
    """Say how a page is won.

    >>> describe_rule("states")
    '6 of these 10 are wrong. Each of them that you mark is a point, each true one costs 2; 4 points win.'
    """
    sentences, mistakes = len(errata(page)), _count_mistakes(page)
    return (
        f"{mistakes} of these {sentences} are wrong. Each of them that you mark is a point, each true one "
        f"costs {_COST}; {_points_to_win(mistakes)} points win."
    )


def score_page(page: str, found: int, suspected: int) -> tuple[bool, str]:
    """Return whether a page is won with so many mistakes and true sentences marked as wrong; say it in words.

    >>> score_page("states", 5, 0)
    (True, 'Won: 5 points. You found 5 of the 6 mistakes, and marked 0 true sentences.')
    >>> score_page("states", 6, 4)
    (False, 'Not won: -2 points, and 4 win. You found 6 of the 6 mistakes, and marked 4 true sentences.')
    """
    mistakes = _count_mistakes(page)
    points, needed = found - _COST * suspected, _points_to_win(mistakes)
    said, wrongly = format_count(points, "point"), format_count(suspected, "true sentence")
    result = f"Won: {said}" if points >= needed else f"Not won: {said}, and {needed} win"
    return points >= needed, f"{result}. You found {found} of the {mistakes} mistakes, and marked {wrongly}."


_COST = 2
"""Points that a true sentence costs, marked as wrong."""


def _count_mistakes(page: str) -> int:
    return sum(one.is_wrong for one in errata(page))


def _points_to_win(mistakes: int) -> int:
    """Return two thirds of the mistakes, rounded up."""
    return -(-2 * mistakes // 3)


def errata_table() -> Table:
    """Return every correction, by its number, with the verdict of the engine.

    >>> errata_table().caption
    '31 corrections'
    """
    wrong = sorted((one for one in errata() if one.is_wrong), key=lambda one: one.id)
    rows = [(one.id, one.document, one.sentence, one.truth, one.is_checked) for one in wrong]
    return Table(rows, ("id", "where", "it says", "in truth", "checked"), f"{len(rows)} corrections")


# What experiments are made of

EXAMPLE: dict[str, Argument] = {
    "qpid.max_count": 1000,
    "qpid.flow_stop_count": 900,
    "qpid.flow_resume_count": 500,
}
GROUPS: dict[str, Argument] = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}


def _add_experiment(
    identifier: str,
) -> Callable[[Callable[[], Iterator[Step]]], Callable[[], Iterator[Step]]]:
    def keep(experiment: Callable[[], Iterator[Step]]) -> Callable[[], Iterator[Step]]:
        _EXPERIMENTS[identifier] = experiment
        return experiment

    return keep


def _fill_queue(
    messages: int | str,
    arguments: dict[str, Any] | None = None,
    options: BrokerOptions | None = None,
    **sent: Any,
) -> tuple[Broker, Any]:
    """Return a broker whose queue ``q`` got some messages, and their producer; see :func:`send`."""
    broker = Broker(options)
    producer = broker.session("producer")
    producer.queue_declare("q", arguments)
    send(producer, "q", messages, **sent)
    return broker, producer


def _flow(broker: Broker) -> str:
    return "ON" if broker.queue("q").statistics().flowStopped else "OFF"


def _declare(arguments: dict[str, Any]) -> str:
    try:
        Broker().session("admin").queue_declare("q", arguments)
    except AmqpException as error:
        return f"refused: {error.text}"
    return "accepted"


def _thresholds(arguments: dict[str, Any], *options: str) -> Any:
    """Return the thresholds of a queue in a broker with these options."""
    limit: Any = _fill_queue(0, arguments, BrokerOptions.parse(options))[0].queue("q").flow_limit
    return limit and limit.thresholds


def _start(*options: str) -> str:
    try:
        BrokerOptions.parse(options)
    except StartupError:
        return "does not start"
    return "starts"


def _try_sending(messages: int, arguments: dict[str, Any]) -> str:
    try:
        _fill_queue(messages, arguments)
    except AmqpException as error:
        return f"refused with {error.code}"
    return "accepted"


def _try_depths(
    states: dict[int, str], arguments: dict[str, Any] | None = None, said: str = "{} messages on the queue"
) -> Iterator[Step]:
    for number, state in states.items():
        yield said.format(number), _flow(_fill_queue(number, arguments or EXAMPLE)[0]), state


def _try_starts(outcomes: dict[str, str]) -> Iterator[Step]:
    for option, outcome in outcomes.items():
        yield f"qpidd {option}", _start(option), outcome


def _try_declaration(said: str, outcome: str, **short: int) -> Iterator[Step]:
    yield said, _declare({f"qpid.{key}": value for key, value in short.items()}), outcome


_REFUSED = 'refused: Queue "q": qpid.flow_resume_count={} must be less or equal to qpid.flow_stop_count={}'
_EXPERIMENTS |= {
    "T-01": lambda: _try_depths({900: "OFF", 901: "ON"}),
    "X-01": lambda: _try_depths({0: "OFF", 900: "OFF", 901: "ON"}),
    "T-02": lambda: _try_depths({0: "OFF"}, said="no message on the queue"),
    "T-03": lambda: _try_depths({80: "OFF", 81: "ON"}, {"qpid.max_count": 100}, "max_count 100, {} messages"),
    "T-12": lambda: _try_depths(
        {10: "OFF"},
        {"qpid.max_count": 10, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0},
        "max_count 10, both stops 0, {} messages",
    ),
    "X-10": lambda: _try_depths(
        {9: "ON"}, {"qpid.max_count": 10}, "max_count 10 and nothing else, {} messages"
    ),
    "X-08": lambda: _try_declaration(
        "max_count 100, stop 100", "accepted", max_count=100, flow_stop_count=100
    ),
    "T-04": lambda: _try_declaration(
        "stop 50, resume 60", _REFUSED.format(60, 50), max_count=100, flow_stop_count=50, flow_resume_count=60
    ),
    "X-20": lambda: _try_declaration(
        "max_count 100, stop 5, and no resume", _REFUSED.format(70, 5), max_count=100, flow_stop_count=5
    ),
    "X-03": lambda: _try_starts(
        {"--default-msg-group=EMPTY-GROUP": "does not start", "--default-message-group=EMPTY-GROUP": "starts"}
    ),
    "X-04": lambda: _try_starts(
        {"--default-flow-stop-threshold=100": "starts", "--default-flow-stop-threshold=101": "does not start"}
    ),
}


# On and off


@_add_experiment("X-06")
def _() -> Iterator[Step]:
    proposed = BrokerOptions(flow_control="watermark")
    yield "900 messages, as shipped", _flow(_fill_queue(900, EXAMPLE)[0]), "OFF"
    yield "901 messages, as shipped", _flow(_fill_queue(901, EXAMPLE)[0]), "ON"
    yield "900 messages, as the ticket proposed", _flow(_fill_queue(900, EXAMPLE, proposed)[0]), "ON"


@_add_experiment("X-07")
def _() -> Iterator[Step]:
    broker, _ = _fill_queue(901, EXAMPLE)
    reader = Reader(broker, "reader", "q")
    yield "901 messages on the queue", _flow(broker), "ON"
    reader.take(401)
    yield "401 are taken off it: 500 are left", _flow(broker), "ON"
    reader.take(1)
    yield "one more: 499 are left", _flow(broker), "OFF"


@_add_experiment("T-08")
def _() -> Iterator[Step]:
    for left, state in ((500, "ON"), (499, "OFF")):
        broker, _ = _fill_queue(901, EXAMPLE)
        Reader(broker, "reader", "q").take(901 - left)
        yield f"901 messages, of which {left} are left", _flow(broker), state


@_add_experiment("X-19")
def _() -> Iterator[Step]:
    broker, _ = _fill_queue(901, EXAMPLE)
    Reader(broker, "reader", "q").take(300)
    statistics = broker.queue("q").statistics()
    yield "901 messages, of which 300 are read: msgDepth", statistics.msgDepth, 601
    yield "flowStopped, although 601 does not exceed 900", statistics.flowStopped, True
    yield "flowStoppedCount", statistics.flowStoppedCount, 1


@_add_experiment("T-09")
def _() -> Iterator[Step]:
    for count, size in ((10, 5000), (50, 1000)):
        stops = {"qpid.flow_stop_count": count, "qpid.flow_stop_size": size, "qpid.flow_resume_size": 500}
        said = f"stop {count} and {size} bytes, {{}} messages of 100 bytes"
        yield from _try_depths({10: "OFF", 11: "ON"}, stops, said)


@_add_experiment("X-30")
def _() -> Iterator[Step]:
    broker, producer = _fill_queue(3, {"qpid.flow_stop_count": 1})
    reader = Reader(broker, "reader", "q", prefetch=3)
    yield "3 messages, stop 1: completions held", len(producer.held), 2
    reader.accept(reader.got[1])
    yield "a held message is accepted, and the queue is still", _flow(broker), "ON"
    yield "completions held then", len(producer.held), 1


@_add_experiment("X-31")
def _() -> Iterator[Step]:
    for k in (1000, 1024):
        size = {"qpid.max_size": 10 * k, "qpid.flow_stop_size": 8 * k, "qpid.flow_resume_size": 6 * k}
        broker, producer = _fill_queue(8, size, size=k)
        yield f"K is {k:,}: 8 messages of 1 K", _flow(broker), "OFF"
        send(producer, "q", size=50)
        yield f"K is {k:,}: 50 bytes more", _flow(broker), "ON"


# Names and units


@_add_experiment("X-02")
def _() -> Iterator[Step]:
    statistics = _fill_queue(0)[0].queue("q").statistics()
    yield "a statistic flowStopped", "there" if hasattr(statistics, "flowStopped") else "missing", "there"
    yield "a statistic flowState", "there" if hasattr(statistics, "flowState") else "missing", "missing"


@_add_experiment("T-10")
def _() -> Iterator[Step]:
    broker, producer = _fill_queue(3, {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    reader = Reader(broker, "reader", "q")
    yield "3 messages, stop 2: flowStoppedCount", broker.queue("q").statistics().flowStoppedCount, 1
    reader.take(3)
    send(producer, "q", 4)
    yield "emptied, and 4 more", broker.queue("q").statistics().flowStoppedCount, 2


@_add_experiment("T-11")
def _() -> Iterator[Step]:
    for options, name in (((), "qpid.no-group"), (("--default-message-group=none",), "none")):
        broker, _ = _fill_queue(1, GROUPS, BrokerOptions.parse(options))
        yield (
            f"qpidd {' '.join(options)}: a message without a group is of".replace(" :", ":"),
            _group(broker)["group_id"],
            name,
        )


@_add_experiment("X-05")
def _() -> Iterator[Step]:
    broker, producer = _fill_queue(0)
    producer.message_transfer(Message(100, routing_key="q"))
    yield "one message with 100 bytes of content: byteDepth", broker.queue("q").statistics().byteDepth, 111


@_add_experiment("X-23")
def _() -> Iterator[Step]:
    stop = _thresholds({"default-queue-limit": 10_000}).stop_size
    yield "declared with default-queue-limit 10,000: stop in bytes", stop, 83_886_080


# Configuration


@_add_experiment("X-09")
def _() -> Iterator[Step]:
    stop, resume = "--default-flow-stop-threshold=0", "--default-flow-resume-threshold=0"
    yield "0 for both", _start(stop, resume), "starts"
    yield "0 for resume alone", _start(resume), "starts"
    yield "0 for stop alone", _start(stop), "does not start"


@_add_experiment("X-11")
def _() -> Iterator[Step]:
    thresholds = {"qpid.max_count": 10, "qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}
    for policy, state in (("ring", "OFF"), ("ring_strict", "ON")):
        broker, _ = _fill_queue(5, {**thresholds, "qpid.policy_type": policy})
        yield f"{policy} with stop 2, 5 messages", _flow(broker), state


@_add_experiment("T-13")
def _() -> Iterator[Step]:
    off = ("--default-flow-stop-threshold=0", "--default-flow-resume-threshold=0")
    yield (
        "both options 0, max_count 10",
        _thresholds({"qpid.max_count": 10}, *off) or "no thresholds",
        "no thresholds",
    )
    own = {"qpid.max_count": 10, "qpid.flow_stop_count": 5}
    yield "the same with flow_stop_count 5: stop", _thresholds(own, *off).stop_count, 5


@_add_experiment("T-14")
def _() -> Iterator[Step]:
    stop = _thresholds({"qpid.max_size": 10_000}, "--default-flow-stop-threshold=90").stop_size
    yield "max_size 10,000: stop in bytes", stop, 9_000


@_add_experiment("X-24")
def _() -> Iterator[Step]:
    broker, producer = _fill_queue(3, {"qpid.max_count": 3, "qpid.policy_type": "ring"})
    reader = Reader(broker, "reader", "q", prefetch=3)
    yield "a ring of 3, all acquired by a reader", len(reader.got), 3
    send(producer, "q")
    yield "one message more: discardsRing", broker.queue("q").statistics().discardsRing, 1


@_add_experiment("X-25")
def _() -> Iterator[Step]:
    for policy in ("reject", "ring_strict", "flow_to_disk"):
        limited = {"qpid.max_count": 10, "qpid.policy_type": policy}
        yield f"{policy}, limit 10, 11 messages", _try_sending(11, limited), "refused with 506"


@_add_experiment("X-26")
def _() -> Iterator[Step]:
    arguments = read_any("q --max-queue-count=10 --limit-policy=ring-strict").arguments
    yield "what is declared then", ", ".join(arguments), "qpid.max_count"


@_add_experiment("T-15")
def _() -> Iterator[Step]:
    arguments = read_any("q --max-queue-count=10 --flow-stop-count=8").arguments
    yield "what is declared then", ", ".join(arguments), "qpid.max_count, qpid.flow_stop_count"


@_add_experiment("X-28")
def _() -> Iterator[Step]:
    broker = Broker()
    groups = {"qpid.group_header_key": "g", "qpid.shared_msg_group": 1, "qpid.group_timestamp": 1}
    more = {"qpid.alert_repeat_gap": 5, "no-such-key": 1}
    broker.management.create("queue", "q", {**groups, **more}, strict=True)
    send(broker.session("p"), "q", "A-1", header="g")
    state: Any = broker.management.query("queue", "q")["qpid.message_group_queue"]
    yield "all three, and an unknown key", "accepted", "accepted"
    yield "the group's timestamp", state["group_state"][0]["timestamp"], 0


# Producers and full queues


@_add_experiment("X-12")
def _() -> Iterator[Step]:
    for kind, step in (("ideal", "SEND"), ("qpid-cpp", "SYNC")):
        window = make_window(kind, 3)
        for number in range(3):
            window.sent(number)
        reported = RangeSet()
        reported.add(1)
        window.reported(reported)
        said = f"window of 3 ({kind}), the second is complete: what it does next"
        yield said, window.next_step().name, step


@_add_experiment("X-13")
def _() -> Iterator[Step]:
    broker = Broker()
    full, other = (broker.session(name, connection="one") for name in ("full", "other"))
    full.queue_declare("q", {"qpid.max_count": 1, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0})
    try:
        send(full, "q", 2)
        outcome = "accepted"
    except AmqpException as error:
        outcome = f"refused with {error.code}"
    yield "a second message to a queue of 1", outcome, "refused with 506"
    yield "the session that sent it", "lives" if full.is_attached else "ended", "ended"
    yield "another session on its connection", "lives" if other.is_attached else "ended", "lives"


@_add_experiment("T-16")
def _() -> Iterator[Step]:
    broker, producer = _fill_queue(101, {"qpid.flow_stop_count": 100})
    yield "stop 100, 101 messages: on the queue", broker.queue("q").statistics().msgDepth, 101
    yield "completions held", len(producer.held), 1


@_add_experiment("T-17")
def _() -> Iterator[Step]:
    for capacity, outcome in ((2, "accepted"), (3, "refused with 506")):
        seen = _try_sending(8 + capacity, {"qpid.max_count": 10, "qpid.flow_stop_count": 8})
        yield f"limit 10, stop 8, and a capacity of {capacity} on top", seen, outcome


@_add_experiment("T-05")
def _() -> Iterator[Step]:
    producer = Producer("C1", ("", "q"), rate=20_000, capacity=50, size=100)
    yield "stop 100, one client of 50: messages sent", _stall(producer), 150


@_add_experiment("X-21")
def _() -> Iterator[Step]:
    def clients(seed: int, window: str) -> list[Producer]:
        numbered = enumerate((50, 15))
        return [
            Producer(f"C{n}", ("", "q"), 20_000, size, 100, seed=seed + n, window=window)
            for n, size in numbered
        ]

    depths = {_stall(*clients(10 * seed, "qpid-cpp")) for seed in range(30)}
    yield "two ideal clients: messages sent", _stall(*clients(0, "ideal")), 165
    yield "30 runs of C++ clients: the most", max(depths), 165
    yield "different numbers among them: more than 5", len(depths) > 5, True


def _stall(*producers: Producer) -> int:
    workload = Workload("stall", 1, {"q": {"qpid.flow_stop_count": 100}}, producers=producers)
    return sum(event.kind == "enqueued" for event in simulate(workload).events)


@_add_experiment("X-27")
def _() -> Iterator[Step]:
    producer = Broker().session("producer")
    (transfer,) = send(producer, "nowhere")
    seen = "complete" if transfer.is_complete else "held"
    yield "a message to a queue that does not exist", seen, "complete"
    yield "its session", "lives" if producer.is_attached else "ended", "lives"


# Groups


def _group(broker: Broker) -> Any:
    state: Any = broker.management.query("queue", "q")["qpid.message_group_queue"]
    return state["group_state"][0]


def _fill_groups(messages: str) -> Broker:
    return _fill_queue(messages, GROUPS, header="G")[0]


@_add_experiment("X-15")
def _() -> Iterator[Step]:
    for name in ("accept", "reject", "release"):
        broker = _fill_groups("A-1 A-2")
        reader = Reader(broker, "reader", "q")
        reader.fetch()
        getattr(reader, name)()
        yield f"the reader's message A-1, after {name}: group A", _group(broker)["consumer"] or "free", "free"


@_add_experiment("T-18")
def _() -> Iterator[Step]:
    state: Any = _fill_groups("A-1 B-1 C-1").management.query("queue", "q")["qpid.message_group_queue"]
    names = ", ".join(group["group_id"] for group in state["group_state"])
    yield "A-1, B-1 and C-1 are sent: groups", names, "A, B, C"


@_add_experiment("X-16")
def _() -> Iterator[Step]:
    others: dict[str, dict[str, Any]] = {
        "paging": {**GROUPS, "qpid.paging": True},
        "priorities": {**GROUPS, "qpid.priorities": 2},
        "a last-value key": {**GROUPS, "qpid.last_value_queue_key": "k"},
        "no sharing": {"qpid.group_header_key": "G"},
    }
    for name, arguments in others.items():
        yield f"groups with {name}", _declare(arguments).split(":")[0], "refused"


@_add_experiment("X-17")
def _() -> Iterator[Step]:
    for value, name in (("5", "5"), (5, "5"), (True, "qpid.no-group")):
        broker = _fill_groups("")
        broker.sessions["producer"].message_transfer(Message(1, "q", {"G": value}))
        yield f"a message with {value!r} is of group", _group(broker)["group_id"], name


@_add_experiment("T-19")
def _() -> Iterator[Step]:
    broker = _fill_groups("A-1 A-2")
    first = Reader(broker, "first", "q")
    first.fetch(2)
    first.release("A-1")
    first.accept("A-2")
    yield (
        "A-1 and A-2 are read, A-1 released, A-2 accepted: then comes",
        Reader(broker, "second", "q").fetch(),
        "A-1*",
    )


@_add_experiment("T-06")
def _() -> Iterator[Step]:
    broker = _fill_groups("A-1 A-2 B-1")
    first = Reader(broker, "first", "q")
    yield "a first reader takes one message", first.fetch(), "A-1"
    yield "a second one then, while A belongs to the first", Reader(broker, "second", "q").fetch(), "B-1"


@_add_experiment("X-18")
def _() -> Iterator[Step]:
    broker = _fill_groups("A-1 A-2")
    first = Reader(broker, "first", "q")
    first.fetch()
    waiting = Reader(broker, "waiting", "q", prefetch=5)
    first.accept()
    yield "A-1 is accepted, so group A is", _group(broker)["consumer"] or "free", "free"
    yield "what the waiting consumer got", ", ".join(waiting.got) or "nothing", "nothing"
    yield "messages on the queue, that it could have", broker.queue("q").statistics().messageCount, 1


# History and neighbours


@_add_experiment("X-14")
def _() -> Iterator[Step]:
    broker, _ = _fill_queue(3, {"qpid.flow_stop_count": 1})
    limit: Any = broker.queue("q").flow_limit
    state = qflow.broker.replicate(limit)
    yield "3 messages, stop 1: bytes that a second node is sent", len(state.encoded), 36
    yield "and the messages held, in them", str(state.pending_msg_seqs), "((2, 3),)"


@_add_experiment("T-20")
def _() -> Iterator[Step]:
    options = BrokerOptions(flow_control="overflow-list")
    broker, producer = _fill_queue(5, {"qpid.max_count": 3}, options)
    yield "5 messages to a queue of 3: on the queue", broker.queue("q").statistics().msgDepth, 3
    yield "the session that sent them", "lives" if producer.is_attached else "ended", "lives"


@_add_experiment("X-22")
def _() -> Iterator[Step]:
    said = "the manual says 0.10, and what it was merged into became 0.10"
    yield "no machine can check this", said, said


_BY_SIZE = {"qpid.flow_stop_size": 300, "qpid.flow_resume_size": 200}


@_add_experiment("X-29")
def _() -> Iterator[Step]:
    broker, _ = _fill_queue(4, _BY_SIZE, BrokerOptions(flow_control="java"))
    reader = Reader(broker, "reader", "q")
    reader.take(1)
    yield "capacity 300, resume 200: with 300 bytes", _flow(broker), "ON"
    reader.take(1)
    yield "with 200 bytes", _flow(broker), "OFF"


@_add_experiment("T-07")
def _() -> Iterator[Step]:
    for kind, asked in (("java", "asked to stop"), ("shipped", "not asked")):
        broker, producer = _fill_queue(0, _BY_SIZE, BrokerOptions(flow_control=kind))
        events: list[Event] = []
        broker.observe(events.append)
        send(producer, "q", 4)
        heard = any(event.kind == "channel_flow" for event in events)
        seen = "asked to stop" if heard else "not asked"
        yield f"4 messages of 100 bytes, {kind}: the client is", seen, asked
