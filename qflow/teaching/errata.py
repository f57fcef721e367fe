"""Errata: statements in the broker's documents, some of them wrong, each with an experiment that decides.

``data/errata.csv`` has the sentences of each page, in our own words or as the rule book quotes them, with the
truth and an id: that of the correction (``X-…``) for a wrong sentence, or ``T-…`` for a true one. An
*experiment* tests a sentence on the engine: each step has an action, the observation, and the observation
that is expected if the correction is right. So a page can be read, played as a game, and run as a test. In
the game, marking a true sentence costs more than marking a wrong one gains, so that marking everything does
not win. The answers leave Python only when the marks are judged, so that no output reveals them. A page of
the book has no Python, and contains the answers in compressed form (:func:`to_store`).

The engine may serve as the judge, as it agrees with recordings of the real broker; see
:func:`qflow.teaching.beside`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from qflow.broker import BrokerOptions, Message, RangeSet, replicate
from qflow.broker.errors import AmqpException, StartupError
from qflow.broker.events import Event
from qflow.client_windows import make_window
from qflow.configuration.notations import read_any
from qflow.kit import RefusalError, kit_path
from qflow.table import Table
from qflow.teaching.trial import GROUP, Trial, fill_groups
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
"""The headings of the pages, keyed by name, in the order of the data."""

Step = tuple[str, object, object]
"""A step of an experiment: the action, the observation, and the expected observation."""


class _Observation(NamedTuple):
    """The result of one step of an experiment: the action, the observation, whether it is as expected."""

    tried: str
    seen: str
    is_right: bool


@dataclass(frozen=True, slots=True)
class Erratum:
    """A sentence of a document, with the truth about it."""

    page: str
    id: str
    document: str
    sentence: str
    truth: str

    @property
    def is_wrong(self) -> bool:
        """Whether the sentence is wrong."""
        return self.id.startswith("X")

    def observe(self) -> tuple[_Observation, ...]:
        """Run the experiment for the sentence on the engine, and return the observation of each step."""
        return _observe(self.id)

    @property
    def is_checked(self) -> bool:
        """Whether all observations are as expected if the truth is as stated here."""
        return all(step.is_right for step in self.observe())


@cache
def _observe(sentence: str) -> tuple[_Observation, ...]:
    steps: Iterator[Step] = getattr(_Experiments(), sentence.lower().replace("-", "_"))()
    return tuple(_Observation(tried, str(seen), seen == expected) for tried, seen, expected in steps)


@cache
def _read_errata() -> tuple[Erratum, ...]:
    path = kit_path("data") / "errata.csv"
    return tuple(Erratum(**row) for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def errata(page: str | None = None) -> list[Erratum]:
    """Return the sentences of a page of the documents, each with the truth and its experiment.

    Parameters:
        page: The name of a page, a key of ``PAGES``; None for the sentences of all pages.

    Raises:
        RefusalError: If there is no such page.

    >>> len([one for one in errata() if one.is_wrong]), len(errata("groups"))
    (31, 7)
    >>> [f"{step.tried}: {step.seen}" for step in errata("states")[1].observe()][1:]
    ['900 messages on the queue: OFF', '901 messages on the queue: ON']
    """
    if page is not None and page not in PAGES:
        raise RefusalError(f"there is no page {page!r}; there are {', '.join(PAGES)}")
    return [one for one in _read_errata() if page in (None, one.page)]


def errata_table() -> Table:
    """Return a table of all corrections, sorted by id, each with whether the engine confirms it.

    >>> errata_table().caption
    '31 corrections'
    """
    wrong = sorted((one for one in errata() if one.is_wrong), key=lambda one: one.id)
    rows = [(one.id, one.document, one.sentence, one.truth, one.is_checked) for one in wrong]
    return Table(rows, ("id", "where", "it says", "in truth", "checked"), f"{len(rows)} corrections")


# The game, without its widget, as the site is built and its worker runs where ipywidgets is not installed

_COST = 2
"""The points that it costs to mark a true sentence as wrong."""


def pose_page(page: str) -> dict[str, Any]:
    """Return the heading and the sentences of a page for the game, with the rule for winning."""
    sentences = [{"from": one.document, "text": one.sentence} for one in errata(page)]
    mistakes, needed = _count_mistakes(page)
    rule = (
        f"{mistakes} of these {len(sentences)} are wrong. Each wrong one that you mark is a point, each "
        f"true one costs {_COST}; {needed} points win."
    )
    return {"heading": PAGES[page], "rule": rule, "sentences": sentences}


def write_answer(one: Erratum) -> dict[str, Any]:
    """Return the answer for a sentence: its id, whether it is wrong, the truth, and the experiment."""
    steps = [[step.tried, step.seen] for step in one.observe()]
    return {"id": one.id if one.is_wrong else "", "isWrong": one.is_wrong, "truth": one.truth, "steps": steps}


def score_page(page: str, found: int, suspected: int) -> tuple[bool, str]:
    """Return whether a page is won with these mistakes found and true sentences marked, and a sentence."""
    mistakes, needed = _count_mistakes(page)
    points = found - _COST * suspected
    said, wrongly = format_count(points, "point"), format_count(suspected, "true sentence")
    result = f"Won: {said}" if points >= needed else f"Not won: {said}, and {needed} win"
    return points >= needed, f"{result}. You found {found} of the {mistakes} mistakes, and marked {wrongly}."


def _count_mistakes(page: str) -> tuple[int, int]:
    """Return the number of wrong sentences in a page, and the points that win, two thirds of it."""
    mistakes = sum(one.is_wrong for one in errata(page))
    # Rounded up.
    return mistakes, -(-2 * mistakes // 3)


def to_store(page: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the view of a page for a page without a kernel, and its answers with all possible scores."""
    known, (wrong, _) = errata(page), _count_mistakes(page)
    # A page without a kernel looks the score up, so that the rule is only in Python.
    counts = ((found, other) for found in range(wrong + 1) for other in range(len(known) - wrong + 1))
    scores = {f"{found} {suspected}": score_page(page, found, suspected)[1] for found, suspected in counts}
    return pose_page(page), {"answers": [write_answer(one) for one in known], "scores": scores}


# Parts of the experiments

EXAMPLE: dict[str, Any] = {"max_count": 1000, "flow_stop_count": 900, "flow_resume_count": 500}


# Each experiment has a new broker, so that none is affected by an earlier one.
def _fill(messages: int, options: BrokerOptions | None = None, size: int = 100, **short: Any) -> Trial:
    """Return a trial with messages on a queue ``q`` that was declared with the given arguments."""
    trial = Trial(options).declare("q", **short)
    trial.send("q", messages, size=size)
    return trial


def _owner(trial: Trial) -> str:
    return trial.groups("q")[0]["consumer"] or "free"


def _declare(**short: Any) -> str:
    try:
        Trial().declare("q", **short)
    except AmqpException as error:
        return f"refused: {error.text}"
    return "accepted"


def _thresholds(*options: str, **short: Any) -> Any:
    """Return the thresholds of a queue in a broker with the given options, or None without flow control."""
    limit: Any = _fill(0, BrokerOptions.parse(options), **short).broker.queue("q").flow_limit
    return limit and limit.thresholds


def _start(*options: str) -> str:
    try:
        BrokerOptions.parse(options)
    except StartupError:
        return "does not start"
    return "starts"


def _try_sending(messages: int, **short: Any) -> str:
    trial = Trial().declare("q", **short)
    return _describe_code(trial.code_of(lambda: trial.send("q", messages)))


def _describe_code(code: int) -> str:
    return f"refused with {code}" if code else "accepted"


def _describe_session(session: Any) -> str:
    return "lives" if session.is_attached else "ended"


def _try_depths(
    states: dict[int, str], said: str = "{} messages on the queue", **short: Any
) -> Iterator[Step]:
    for number, state in states.items():
        yield said.format(number), _fill(number, **(short or EXAMPLE)).state("q"), state


def _try_start(option: str, outcome: str) -> Iterator[Step]:
    yield f"qpidd {option}", _start(option), outcome


def _try_declaration(said: str, outcome: str, **short: int) -> Iterator[Step]:
    yield said, _declare(**short), outcome


_REFUSED = 'refused: Queue "q": qpid.flow_resume_count={} must be less or equal to qpid.flow_stop_count={}'
_NO_STOPS: dict[str, Any] = {"flow_stop_count": 0, "flow_stop_size": 0}
_BY_SIZE: dict[str, Any] = {"flow_stop_size": 300, "flow_resume_size": 200}


def _stall(window: str, seed: int, *capacities: int) -> int:
    """Return the number of messages that clients can send to a queue with stop 100, without a consumer."""
    producers = tuple(
        Producer(f"C{n}", ("", "q"), 20_000, capacity, 100, seed=seed + n, window=window)
        for n, capacity in enumerate(capacities)
    )
    workload = Workload("stall", 1, {"q": {"qpid.flow_stop_count": 100}}, producers=producers)
    # Without a consumer, the number depends on stop and windows; rate and seed only affect the time.
    return sum(event.kind == "enqueued" for event in simulate(workload).events)


class _Experiments:
    """The experiments: a method for each sentence, named after its id, that yields the steps."""

    def t_01(self) -> Iterator[Step]:
        return _try_depths({900: "OFF", 901: "ON"})

    def x_01(self) -> Iterator[Step]:
        return _try_depths({0: "OFF", 900: "OFF", 901: "ON"})

    def t_02(self) -> Iterator[Step]:
        return _try_depths({0: "OFF"}, "no message on the queue")

    def t_03(self) -> Iterator[Step]:
        return _try_depths({80: "OFF", 81: "ON"}, "max_count 100, {} messages", max_count=100)

    def t_12(self) -> Iterator[Step]:
        said = "max_count 10, both stops 0, {} messages"
        return _try_depths({10: "OFF"}, said, max_count=10, **_NO_STOPS)

    def x_10(self) -> Iterator[Step]:
        return _try_depths({9: "ON"}, "max_count 10 and nothing else, {} messages", max_count=10)

    def x_08(self) -> Iterator[Step]:
        return _try_declaration("max_count 100, stop 100", "accepted", max_count=100, flow_stop_count=100)

    def t_04(self) -> Iterator[Step]:
        levels = {"max_count": 100, "flow_stop_count": 50, "flow_resume_count": 60}
        return _try_declaration("stop 50, resume 60", _REFUSED.format(60, 50), **levels)

    def x_20(self) -> Iterator[Step]:
        said = "max_count 100, stop 5, and no resume"
        return _try_declaration(said, _REFUSED.format(70, 5), max_count=100, flow_stop_count=5)

    def x_03(self) -> Iterator[Step]:
        yield from _try_start("--default-msg-group=EMPTY-GROUP", "does not start")
        yield from _try_start("--default-message-group=EMPTY-GROUP", "starts")

    def x_04(self) -> Iterator[Step]:
        yield from _try_start("--default-flow-stop-threshold=100", "starts")
        yield from _try_start("--default-flow-stop-threshold=101", "does not start")

    # On and off

    def x_06(self) -> Iterator[Step]:
        proposed = BrokerOptions(flow_control="watermark")
        yield from _try_depths({900: "OFF", 901: "ON"}, "{} messages, as shipped")
        yield "900 messages, as the ticket proposed", _fill(900, proposed, **EXAMPLE).state("q"), "ON"

    def x_07(self) -> Iterator[Step]:
        trial = _fill(901, **EXAMPLE)
        reader = trial.reader("q")
        yield "901 messages on the queue", trial.state("q"), "ON"
        reader.take(401)
        yield "401 are taken off it: 500 are left", trial.state("q"), "ON"
        reader.take(1)
        yield "one more: 499 are left", trial.state("q"), "OFF"

    def t_08(self) -> Iterator[Step]:
        for left, state in ((500, "ON"), (499, "OFF")):
            trial = _fill(901, **EXAMPLE)
            trial.reader("q").take(901 - left)
            yield f"901 messages, of which {left} are left", trial.state("q"), state

    def x_19(self) -> Iterator[Step]:
        trial = _fill(901, **EXAMPLE)
        trial.reader("q").take(300)
        statistics = trial.statistics("q")
        yield "901 messages, of which 300 are read: msgDepth", statistics.msgDepth, 601
        yield "flowStopped, although 601 does not exceed 900", statistics.flowStopped, True
        yield "flowStoppedCount", statistics.flowStoppedCount, 1

    def t_09(self) -> Iterator[Step]:
        for count, size in ((10, 5000), (50, 1000)):
            said = f"stop {count} and {size} bytes, {{}} messages of 100 bytes"
            stops = {"flow_stop_count": count, "flow_stop_size": size, "flow_resume_size": 500}
            yield from _try_depths({10: "OFF", 11: "ON"}, said, **stops)

    def x_30(self) -> Iterator[Step]:
        trial = _fill(3, flow_stop_count=1)
        reader = trial.reader("q", prefetch=3)
        yield "3 messages, stop 1: completions held", len(trial.producer.held), 2
        reader.accept(reader.got[1])
        yield "a held message is accepted, and the queue is still", trial.state("q"), "ON"
        yield "completions held then", len(trial.producer.held), 1

    def x_31(self) -> Iterator[Step]:
        for k in (1000, 1024):
            trial = _fill(8, size=k, max_size=10 * k, flow_stop_size=8 * k, flow_resume_size=6 * k)
            yield f"K is {k:,}: 8 messages of 1 K", trial.state("q"), "OFF"
            trial.send("q", size=50)
            yield f"K is {k:,}: 50 bytes more", trial.state("q"), "ON"

    # Names and units

    def x_02(self) -> Iterator[Step]:
        statistics = _fill(0).statistics("q")
        for name, found in (("flowStopped", "there"), ("flowState", "missing")):
            yield f"a statistic {name}", "there" if hasattr(statistics, name) else "missing", found

    def t_10(self) -> Iterator[Step]:
        trial = _fill(3, flow_stop_count=2, flow_resume_count=1)
        yield "3 messages, stop 2: flowStoppedCount", trial.statistics("q").flowStoppedCount, 1
        trial.reader("q").take(3)
        trial.send("q", 4)
        yield "emptied, and 4 more", trial.statistics("q").flowStoppedCount, 2

    def t_11(self) -> Iterator[Step]:
        for said, options, name in (
            ("qpidd", (), "qpid.no-group"),
            ("qpidd --default-message-group=none", ("--default-message-group=none",), "none"),
        ):
            trial = Trial(BrokerOptions.parse(options)).declare_groups("q")
            trial.send("q")
            yield f"{said}: a message without a group is of", trial.groups("q")[0]["group_id"], name

    def x_05(self) -> Iterator[Step]:
        trial = _fill(0)
        trial.producer.message_transfer(Message(100, routing_key="q"))
        yield "one message with 100 bytes of content: byteDepth", trial.statistics("q").byteDepth, 111

    def x_23(self) -> Iterator[Step]:
        trial = Trial()
        trial.admin.queue_declare("q", {"default-queue-limit": 10_000})
        limit: Any = trial.broker.queue("q").flow_limit
        stop = limit.thresholds.stop_size
        yield "declared with default-queue-limit 10,000: stop in bytes", stop, 83_886_080

    # Configuration

    def x_09(self) -> Iterator[Step]:
        stop, resume = "--default-flow-stop-threshold=0", "--default-flow-resume-threshold=0"
        yield "0 for both", _start(stop, resume), "starts"
        yield "0 for resume alone", _start(resume), "starts"
        yield "0 for stop alone", _start(stop), "does not start"

    def x_11(self) -> Iterator[Step]:
        for policy, state in (("ring", "OFF"), ("ring_strict", "ON")):
            trial = _fill(5, max_count=10, flow_stop_count=2, flow_resume_count=1, policy_type=policy)
            yield f"{policy} with stop 2, 5 messages", trial.state("q"), state

    def t_13(self) -> Iterator[Step]:
        off = ("--default-flow-stop-threshold=0", "--default-flow-resume-threshold=0")
        none = "no thresholds"
        yield "both options 0, max_count 10", _thresholds(*off, max_count=10) or none, none
        stop = _thresholds(*off, max_count=10, flow_stop_count=5).stop_count
        yield "the same with flow_stop_count 5: stop", stop, 5

    def t_14(self) -> Iterator[Step]:
        stop = _thresholds("--default-flow-stop-threshold=90", max_size=10_000).stop_size
        yield "max_size 10,000: stop in bytes", stop, 9_000

    def x_24(self) -> Iterator[Step]:
        trial = _fill(3, max_count=3, policy_type="ring")
        yield "a ring of 3, all acquired by a reader", len(trial.reader("q", prefetch=3).got), 3
        trial.send("q")
        yield "one message more: discardsRing", trial.statistics("q").discardsRing, 1

    def x_25(self) -> Iterator[Step]:
        for policy in ("reject", "ring_strict", "flow_to_disk"):
            seen = _try_sending(11, max_count=10, policy_type=policy)
            yield f"{policy}, limit 10, 11 messages", seen, "refused with 506"

    def x_26(self) -> Iterator[Step]:
        arguments = read_any("q --max-queue-count=10 --limit-policy=ring-strict").arguments
        yield "what is declared then", ", ".join(arguments), "qpid.max_count"

    def t_15(self) -> Iterator[Step]:
        arguments = read_any("q --max-queue-count=10 --flow-stop-count=8").arguments
        yield "what is declared then", ", ".join(arguments), "qpid.max_count, qpid.flow_stop_count"

    def x_28(self) -> Iterator[Step]:
        trial = Trial()
        groups = {"qpid.group_header_key": GROUP, "qpid.shared_msg_group": 1, "qpid.group_timestamp": 1}
        more = {"qpid.alert_repeat_gap": 5, "no-such-key": 1}
        trial.broker.management.create("queue", "q", {**groups, **more}, strict=True)
        trial.send("q", ["A-1"], header=GROUP)
        yield "all three, and an unknown key", "accepted", "accepted"
        yield "the group's timestamp", trial.groups("q")[0]["timestamp"], 0

    # Producers and full queues

    def x_12(self) -> Iterator[Step]:
        for kind, step in (("ideal", "SEND"), ("qpid-cpp", "SYNC")):
            window = make_window(kind, 3)
            for number in range(3):
                window.note_sent(number)
            reported = RangeSet()
            reported.add(1)
            window.note_reported(reported)
            said = f"window of 3 ({kind}), the second is complete: what it does next"
            yield said, window.next_step().name, step

    def x_13(self) -> Iterator[Step]:
        trial = Trial().declare("q", max_count=1, **_NO_STOPS)
        full, other = (trial.broker.session(name, connection="one") for name in ("full", "other"))
        outcome = _describe_code(trial.code_of(lambda: trial.send("q", 2, by=full)))
        yield "a second message to a queue of 1", outcome, "refused with 506"
        yield "the session that sent it", _describe_session(full), "ended"
        yield "another session on its connection", _describe_session(other), "lives"

    def t_16(self) -> Iterator[Step]:
        trial = _fill(101, flow_stop_count=100)
        yield "stop 100, 101 messages: on the queue", trial.depth("q"), 101
        yield "completions held", len(trial.producer.held), 1

    def t_17(self) -> Iterator[Step]:
        for capacity, outcome in ((2, "accepted"), (3, "refused with 506")):
            seen = _try_sending(8 + capacity, max_count=10, flow_stop_count=8)
            yield f"limit 10, stop 8, and a capacity of {capacity} on top", seen, outcome

    def t_05(self) -> Iterator[Step]:
        yield "stop 100, one client of 50: messages sent", _stall("ideal", 1, 50), 150

    def x_21(self) -> Iterator[Step]:
        depths = {_stall("qpid-cpp", 10 * seed, 50, 15) for seed in range(30)}
        yield "two ideal clients: messages sent", _stall("ideal", 0, 50, 15), 165
        yield "30 runs of C++ clients: the most", max(depths), 165
        yield "different numbers among them: more than 5", len(depths) > 5, True

    def x_27(self) -> Iterator[Step]:
        trial = Trial()
        (transfer,) = trial.send("nowhere")
        seen = "complete" if transfer.is_complete else "held"
        yield "a message to a queue that does not exist", seen, "complete"
        yield "its session", _describe_session(trial.producer), "lives"

    # Groups

    def x_15(self) -> Iterator[Step]:
        for name in ("accept", "reject", "release"):
            trial = fill_groups("A-1 A-2")
            reader = trial.reader("q")
            reader.fetch()
            getattr(reader, name)()
            yield f"the reader's message A-1, after {name}: group A", _owner(trial), "free"

    def t_18(self) -> Iterator[Step]:
        names = ", ".join(group["group_id"] for group in fill_groups("A-1 B-1 C-1").groups("q"))
        yield "A-1, B-1 and C-1 are sent: groups", names, "A, B, C"

    def x_16(self) -> Iterator[Step]:
        groups = {"group_header_key": GROUP, "shared_msg_group": 1}
        others: dict[str, dict[str, Any]] = {
            "paging": {**groups, "paging": True},
            "priorities": {**groups, "priorities": 2},
            "a last-value key": {**groups, "last_value_queue_key": "k"},
            "no sharing": {"group_header_key": GROUP},
        }
        for name, short in others.items():
            yield f"groups with {name}", _declare(**short).split(":")[0], "refused"

    def x_17(self) -> Iterator[Step]:
        for value, name in (("5", "5"), (5, "5"), (True, "qpid.no-group")):
            trial = fill_groups("")
            trial.producer.message_transfer(Message(1, "q", {GROUP: value}))
            yield f"a message with {value!r} is of group", trial.groups("q")[0]["group_id"], name

    def t_19(self) -> Iterator[Step]:
        trial = fill_groups("A-1 A-2")
        first = trial.reader("q", "first")
        first.fetch(2)
        first.release("A-1")
        first.accept("A-2")
        said = "A-1 and A-2 are read, A-1 released, A-2 accepted: then comes"
        yield said, trial.reader("q", "second").fetch(), "A-1*"

    def t_06(self) -> Iterator[Step]:
        trial = fill_groups("A-1 A-2 B-1")
        yield "a first reader takes one message", trial.reader("q", "first").fetch(), "A-1"
        said = "a second one then, while A belongs to the first"
        yield said, trial.reader("q", "second").fetch(), "B-1"

    def x_18(self) -> Iterator[Step]:
        trial = fill_groups("A-1 A-2")
        first = trial.reader("q", "first")
        first.fetch()
        waiting = trial.reader("q", "waiting", prefetch=5)
        first.accept()
        yield "A-1 is accepted, so group A is", _owner(trial), "free"
        yield "what the waiting consumer got", ", ".join(waiting.got) or "nothing", "nothing"
        yield "messages on the queue, that it could have", trial.statistics("q").messageCount, 1

    # History and neighbours

    def x_14(self) -> Iterator[Step]:
        limit: Any = _fill(3, flow_stop_count=1).broker.queue("q").flow_limit
        state = replicate(limit)
        yield "3 messages, stop 1: bytes that a second node is sent", len(state.encoded), 36
        yield "and the messages held, in them", str(state.pending_msg_seqs), "((2, 3),)"

    def t_20(self) -> Iterator[Step]:
        trial = _fill(5, BrokerOptions(flow_control="overflow-list"), max_count=3)
        yield "5 messages to a queue of 3: on the queue", trial.depth("q"), 3
        yield "the session that sent them", _describe_session(trial.producer), "lives"

    def x_22(self) -> Iterator[Step]:
        said = "the manual says 0.10, and what it was merged into became 0.10"
        yield "no machine can check this", said, said

    def x_29(self) -> Iterator[Step]:
        trial = _fill(4, BrokerOptions(flow_control="java"), **_BY_SIZE)
        reader = trial.reader("q")
        reader.take(1)
        yield "capacity 300, resume 200: with 300 bytes", trial.state("q"), "ON"
        reader.take(1)
        yield "with 200 bytes", trial.state("q"), "OFF"

    def t_07(self) -> Iterator[Step]:
        for kind, asked in (("java", "asked to stop"), ("shipped", "not asked")):
            trial = _fill(0, BrokerOptions(flow_control=kind), **_BY_SIZE)
            events: list[Event] = []
            trial.broker.observe(events.append)
            trial.send("q", 4)
            heard = any(event.kind == "channel_flow" for event in events)
            seen = "asked to stop" if heard else "not asked"
            yield f"4 messages of 100 bytes, {kind}: the client is", seen, asked
