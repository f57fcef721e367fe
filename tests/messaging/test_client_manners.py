"""The manners of qpid-python's client: which commands it gives, and what it waits for (CAP-12 … CAP-16)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messaging_support import Bench, address, contents, drain, texts

from qflow import messaging
from qflow.broker import Event, events
from qflow.messaging import UNLIMITED, Connection, Receiver, Sender, brokers, refuse, sleep

STOPPED = address("stopped", {"qpid.flow_stop_count": 1})
COMMANDS = {kind for kind in events.COMMANDS if not kind.startswith(("session.", "management.", "advance"))}


class Watched(Bench):
    """A bench that notes the commands of its session; ``*`` for the sync flag."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.commands: list[str] = []
        self.broker.observe(self._note)

    def _note(self, event: Event) -> None:
        if event.kind in COMMANDS and event.session == self.session.name:
            asks = event.kind == "execution.sync" or bool((event.detail or {}).get("sync"))
            self.commands.append(event.kind + "*" * asks)

    def noted(self) -> str:
        commands, self.commands = self.commands, []
        return " ".join(commands)


def hold(bench: Bench) -> Sender:
    """Have the session's second transfer to a queue of its own held."""
    sender = bench.sender(STOPPED)
    sender.send("one")
    sender.send("two", sync=False)
    return sender


# What waits behind a held transfer

WAITING: dict[str, Callable[[Bench], object]] = {
    "a new receiver": lambda bench: bench.receiver("other"),
    "a new sender": lambda bench: bench.sender("other"),
    "a new node": lambda bench: bench.sender("new; {create: always, node: {type: queue}}"),
    "a fetch that finds nothing at once": lambda bench: bench.session.receivers[0].fetch(0),
    "a fetch that finds nothing in time": lambda bench: bench.session.receivers[0].fetch(1),
    "next_receiver and acknowledge": lambda bench: bench.session.acknowledge(
        bench.session.receivers[1].fetch(1)
    ),
    "closing a receiver": lambda bench: bench.session.receivers[0].close(),
    "closing the session": lambda bench: bench.session.close(),
    "a sync of an idle sender": lambda bench: bench.session.sync(),
}


@pytest.mark.parametrize("what", WAITING)
def test_what_waits_behind_a_held_transfer(bench: Bench, what: str) -> None:
    """CAP-12, CM-14: all of it; and all of it goes on when the queue lets go."""
    other = Connection.establish(bench.url).session()
    for name in ("empty", "full", "other"):
        other.sender(address(name)).send("x")
    drain(other.receiver("empty"))
    other.acknowledge()
    for name in ("empty", "full"):
        bench.receiver(name)
    held = hold(bench)
    with pytest.raises(messaging.SyncWouldBlock, match="held by queue 'stopped'") as raised:
        WAITING[what](bench)
    assert raised.value.held_by == ("stopped",)
    bench.stat("stopped").purge(0)
    held.send("three")
    assert held.unsettled() == 0
    assert [link for link in bench.session.links() if not (link.linked or link.closed)] == []
    assert bench.session.acked == []


@pytest.mark.parametrize("closes", ["session", "receiver"])
def test_close_times_out(bench: Bench, closes: str) -> None:
    """CAP-12: of the calls that wait for an answer, close has a time-out."""
    receiver = bench.receiver(address("q"))
    hold(bench)
    with pytest.raises(messaging.Timeout, match="timed out"):
        {"session": bench.session, "receiver": receiver}[closes].close(timeout=2)
    assert bench.broker.now == 2_000_000


def test_a_name_that_was_asked_for_lately_is_not_asked_for_again() -> None:
    """CAP-16: so that a second sender to it waits for nothing, for 60 seconds."""
    bench = Watched()
    hold(bench)
    bench.new_session().sender(address("q"))
    bench.noted()
    bench.sender("q").send("x", sync=False)
    assert bench.noted() == "execution.sync* message.transfer"
    bench.broker.management.delete("queue", "q")
    sleep(59, bench.url)
    bench.sender("q")
    assert bench.noted() == "execution.sync*"
    sleep(1, bench.url)
    with pytest.raises(messaging.SyncWouldBlock):
        bench.sender("q")
    assert bench.noted() == "exchange.query* queue.query*"
    with pytest.raises(messaging.NotFound):
        bench.new_session().sender("q")


# Which commands ask to be reported

LINKS = [
    ("sender", "q", "exchange.query* queue.query*"),
    ("sender", "q; {node: {type: queue}}", "queue.query*"),
    ("sender", "amq.topic; {node: {type: topic}}", "exchange.query*"),
    ("sender", "new; {create: always, node: {type: queue}}", "queue.declare*"),
    ("sender", "new; {create: always}", "exchange.query* queue.query* queue.declare*"),
    (
        "sender",
        "new; {create: always, node: {type: queue, x-bindings: [{exchange: 'amq.topic'}, {key: a}]}}",
        "queue.declare exchange.bind exchange.bind*",
    ),
    ("sender", "q; {link: {x-bindings: [{exchange: 'amq.topic'}]}}",
     "exchange.query* queue.query* exchange.bind*"),
    ("receiver", "q", "exchange.query* queue.query* message.subscribe message.set_flow_mode*"),
    (
        "receiver",
        "amq.topic",
        "exchange.query* queue.query* queue.declare exchange.bind message.subscribe message.set_flow_mode*",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("role", "target", "commands"), LINKS)
def test_the_commands_of_a_link(role: str, target: str, commands: str) -> None:
    """CAP-13: queries ask to be reported, and the last command of a row."""
    bench = Watched()
    Connection.establish(bench.url).session().sender(address("q"))
    getattr(bench, role)(target)
    assert bench.noted() == commands


@pytest.mark.parametrize(
    ("role", "target", "commands"),
    [
        ("sender", "q", ""),
        ("receiver", "q", "message.cancel*"),
        ("receiver", "amq.topic", "message.cancel queue.delete*"),
        ("receiver", "q; {delete: always}", "message.cancel exchange.query* queue.query* queue.delete*"),
    ],
)
def test_the_commands_of_a_close(role: str, target: str, commands: str) -> None:
    """CAP-13."""
    bench = Watched()
    Connection.establish(bench.url).session().sender(address("q"))
    link = getattr(bench, role)(target)
    bench.noted()
    link.close()
    assert bench.noted() == commands


def test_the_commands_of_a_transactional_session() -> None:
    """CAP-13, CAP-15."""
    bench = Watched()
    bench.sender(address("q")).send("x")
    bench.session = bench.new_session(transactional=True)
    bench.commands.clear()
    session, receiver = bench.session, bench.session.receiver("q")
    receiver.fetch(1)
    session.acknowledge()
    session.rollback()
    session.commit()
    assert bench.noted() == (
        "message.subscribe message.set_flow_mode* message.flow message.flow message.accept*"
        " message.stop execution.sync* message.release tx.rollback* tx.commit*"
    )


# Windows and credit


def test_a_shrunk_window_lets_messages_pass(bench: Bench) -> None:
    """CAP-14: available() is -2, which is true; at 0 the sender waits."""
    sender = bench.sender(address("q", {"qpid.flow_stop_count": 1}), capacity=10)
    sender.send("0", sync=False)
    for text in "123":
        sender.send(text, sync=False)
    sender.capacity = sender.unsettled() - 2
    assert sender.available() == -2
    sender.send("4", sync=False, timeout=0)
    sender.capacity = sender.unsettled()
    with pytest.raises(messaging.InsufficientCapacity):
        sender.send("5", sync=False, timeout=0)
    assert bench.stat("q").msgDepth == 5


@pytest.mark.parametrize("capacity", [0, 1, 5])
def test_the_fetch_after_a_rollback_is_empty(bench: Bench, capacity: int) -> None:
    """CAP-15: message credit without byte credit; after the drain all is well."""
    bench.send(address("q"), *"abc")
    session = bench.new_session(transactional=True)
    receiver = session.receiver("q", capacity=capacity)
    receiver.fetch(1)
    session.rollback()
    with pytest.raises(messaging.Empty):
        receiver.fetch(1)
    assert contents([receiver.fetch(1) for _ in range(3)]) == ["a", "b", "c"]


def test_the_fetch_after_a_rollback_after_a_drain(bench: Bench) -> None:
    """CAP-15: the drain has forgotten that bytes were granted."""
    bench.sender(address("q")).send("a")
    session = bench.new_session(transactional=True)
    receiver = session.receiver("q")
    for _ in range(3):
        assert receiver.fetch(0).content == "a"
        session.rollback()


def test_a_larger_capacity_does_not_wait_for_an_end_of_credit(bench: Bench) -> None:
    """CN-09: credit without end is no more than what was granted; the message of a hidden drain is here."""
    bench.sender(address("q")).send("x")
    receiver = bench.receiver("q; {mode: browse}")
    hold(bench)
    with pytest.raises(messaging.SyncWouldBlock):
        receiver.fetch(timeout=0)
    receiver.capacity = UNLIMITED
    assert receiver.fetch(timeout=1).content == "x"


def test_a_smaller_capacity_waits_for_the_stop(bench: Bench) -> None:
    """CN-09, CM-14: from no end to 5 takes a message.stop, which a held transfer hides."""
    receiver = bench.receiver(address("q"), capacity=UNLIMITED)
    bench.sender("q").send("x")
    hold(bench)
    receiver.capacity = 5
    with pytest.raises(messaging.SyncWouldBlock, match="fetch would wait for ever"):
        receiver.fetch(timeout=1)
    bench.stat("stopped").purge(0)
    assert receiver.fetch(timeout=1).content == "x"


# What is one write (RF-08)


@pytest.mark.parametrize("sessions", [1, 2])
def test_receivers_that_are_granted_together_take_turns(bench: Bench, sessions: int) -> None:
    """RF-12: two grants come in one write of a connection, and output is made after both."""
    bench.send(address("q"), *"012345")
    connection = Connection(bench.url)
    own = [connection.session() for _ in range(sessions)]
    receivers = [own[n % sessions].receiver("q", capacity=UNLIMITED) for n in range(2)]
    connection.open()
    assert [receiver.available() for receiver in receivers] == [3, 3]
    receivers[0].close()
    assert texts(receivers[1]) == "1 3 5 0* 2* 4*"


@pytest.mark.parametrize(
    ("act", "writes"),
    [
        (lambda r: r.close(), ["cancel release"]),
        (lambda r: (r.fetch(), r.session.acknowledge()), ["flow", "completed accept"]),
        (lambda r: r.session.rollback(), ["stop stop sync", "completed release rollback", "flow"]),
        (lambda r: r.session.commit(), ["commit"]),
    ],
    ids=["close", "acknowledge", "rollback", "commit"],
)
def test_what_is_one_write(bench: Bench, act: Callable[[Receiver], object], writes: list[str]) -> None:
    """All that the driver gives when it is woken, or has read; nobody is served in between."""
    bench.sender(address("q")).send("x")
    session = bench.new_session(transactional=True)
    receiver, _ = (session.receiver(address(name), capacity=1) for name in ("q", "other"))
    seen: list[list[str]] = [[]]

    def note(event: Event) -> None:
        if event.kind == "session.written":
            seen.append([])
        elif event.kind in {*COMMANDS, "session.completed"}:
            seen[-1].append(event.kind.partition(".")[2])

    bench.broker.observe(note)
    act(receiver)
    assert [" ".join(write) for write in seen] == [*writes, ""]


# A dead session


def test_a_dead_session_is_of_no_use(bench: Bench) -> None:
    """Links of it are made, as in the real client; what waits raises, what does not wait tells nothing."""
    receiver = bench.receiver(address("q", {"qpid.max_count": 2, "qpid.flow_stop_count": 0}))
    sender = bench.sender("q")
    sender.send("1")
    receiver.fetch(1)
    for text in "23":
        sender.send(text, sync=False)
    bench.session.acknowledge(sync=False)
    assert len(bench.session.acked) == 1
    late = [bench.session.receiver("q").fetch, partial(bench.session.sender("q").send, "x")]
    for call in (bench.session.acknowledge, *late):
        with pytest.raises(messaging.TargetCapacityExceeded):
            call()
    assert bench.session.closed


# Connections


def test_a_refused_url(bench: Bench) -> None:
    """ConnectError for new connections, until a broker is installed; open ones stay."""
    refuse(bench.url)
    bench.sender(address("q")).send("x")
    connection = Connection(bench.url)
    for call in (connection.open, connection.session("one").sender("q").sync, connection.attach):
        with pytest.raises(messaging.ConnectError, match="Connection refused"):
            call()
    with pytest.raises(messaging.ConnectError, match="no route"):
        refuse(f"{bench.url}:5672", "no route")
        Connection.establish(bench.url, timeout=1)
    brokers.install(bench.url, bench.broker)
    assert Connection.establish(bench.url).session().receiver("q").fetch(0).content == "x"


# Small programs beside the table

STEPS: dict[str, tuple[str, bool, Callable[[Program], object]]] = {
    # what the client does: commands that come, whether it waits for an unbroken row of completions, the call.
    # <sync> is execution.sync*, if the last command asked for no report and a sender is idle;
    # <bytes> is message.flow, unless bytes are granted.
    "send to stopped": ("message.transfer <sync>", False, lambda it: it.stopped.send("x", sync=False)),
    "send to idle": ("message.transfer <sync>", False, lambda it: it.idle.send("x", sync=False)),
    "send to idle and wait": ("message.transfer*", True, lambda it: it.idle.send("x", sync=True)),
    "sync stopped": ("<sync>", True, lambda it: it.stopped.sync()),
    "sync idle": ("<sync>", True, lambda it: it.idle.sync()),
    "fetch now": ("<sync> <bytes> message.flow <sync> message.flush*", True, lambda it: it.receiver.fetch(0)),
    "fetch in time": ("<sync> <bytes> message.flow <sync>", False, lambda it: it.receiver.fetch(1)),
    "acknowledge": ("<sync> message.accept*", True, lambda it: it.bench.session.acknowledge()),
    "let go": ("", False, lambda it: it.bench.stat("stopped").purge(0)),
}
"""The manners of the client, as far as these programs see them (CAP-12, CAP-13)."""


class Program:
    """Runs steps on one session with two senders and a receiver without a capacity."""

    def __init__(self) -> None:
        self.bench = bench = Watched()
        feeder = Connection.establish(bench.url).session().sender(address("full"))
        for number in range(40):
            feeder.send(f"{number}")
        self.stopped, self.idle = bench.sender(STOPPED), bench.sender(address("idle"))
        self.receiver = bench.receiver("full")
        self.commands: list[str] = ["queue.query*"]
        self.unsynced: set[str] = set()
        self.has_bytes = False
        bench.noted()

    def expected(self, step: str) -> str:
        """What the table says comes now."""
        template = STEPS[step][0]
        name = step.split()[2 if step.startswith("send") else -1]
        if step.startswith("send"):
            (self.unsynced.discard if step.endswith("wait") else self.unsynced.add)(name)
        elif step.startswith("sync"):
            self.unsynced.discard(name)
        made: list[str] = []
        for word in template.split():
            last = [*self.commands, *made][-1]
            if word == "<sync>":
                made += ["execution.sync*"] * (not last.endswith("*") and len(self.unsynced) < 2)
            elif word == "<bytes>":
                made += ["message.flow"] * (not self.has_bytes)
            else:
                made.append(word)
        self.commands += made
        self.has_bytes = step == "fetch in time" or (self.has_bytes and step != "fetch now")
        return " ".join(made)

    def run(self, step: str) -> bool:
        """Do it; return whether it waits without end."""
        try:
            STEPS[step][2](self)
        except messaging.SyncWouldBlock:
            return True
        return False


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=12))
def test_programs_beside_the_table(steps: list[str]) -> None:
    """CAP-12, CAP-13: the commands of every call, and which calls never return."""
    program = Program()
    for step in steps:
        if step == "acknowledge" and not program.bench.session.unacked:
            continue
        expected = program.expected(step)
        is_held = bool(program.bench.session.channel.engine.held)  # type: ignore[union-attr]
        waits = program.run(step)
        assert (step, program.bench.noted()) == (step, expected)
        if waits:
            assert STEPS[step][1], step
            return
        assert not (is_held and step in ("fetch now", "acknowledge", "send to idle and wait")), step


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=15), st.sampled_from([None, 1, 2, 5]))
def test_what_no_unbroken_row_covers_is_unsettled(
    sends: list[tuple[int, bool]], capacity: int | None
) -> None:
    """CM-14, CAP-07: of all reported completions, those before the first gap count."""
    bench = Bench()
    target = [bench.sender(address(name, {"qpid.flow_stop_count": 3})) for name in ("a", "b", "c")]
    if capacity is not None:
        for sender in target:
            sender.capacity = capacity
    channel = bench.session.channel
    assert channel is not None
    numbers: list[list[int]] = [[], [], []]
    for index, sync in sends:
        number = channel.next_number
        with suppress(messaging.Timeout, messaging.InsufficientCapacity):
            target[index].send("x", sync=sync, timeout=0)
        if channel.next_number > number:
            numbers[index].append(number)
        front = channel.engine.completions.reported.front
        for sender, given_numbers in zip(target, numbers, strict=True):
            assert sender.unsettled() == sum(n >= front for n in given_numbers)
