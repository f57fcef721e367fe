"""Threads on one broker: calls that block, what frees them, and when nothing can (hosts.py)."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from messaging_support import Bench, address, contents, drain
from waiting import wait_until

from qflow import messaging
from qflow.messaging import Connection, Message, Sender, Session, hosts, sleep

HOUR = 3600.0
"""A time-out that no test lives to see in real time."""


class Worker(threading.Thread):
    """Runs a function; ``result()`` waits for its end, and gives what it returned or raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self.work()
        except Exception as error:
            self.outcome = error

    def result(self) -> object:
        self.join()
        return self.outcome


def until_waiting(bench: Bench, worker: Worker) -> Worker:
    """Return a thread when it waits for the broker."""
    host = bench.connection.broker_host

    def is_waiting() -> bool:
        wait = hosts._waits.get(worker)
        return (wait is not None and wait.host is host) or not worker.is_alive()

    wait_until(is_waiting, "the thread waits")
    assert worker.is_alive()
    return worker


@pytest.fixture
def slow_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread take its time, on a machine with much to do, before it uses a broker."""
    monkeypatch.setattr(hosts, "_STARTING", 60.0)


def stopping(name: str = "q", count: int = 1) -> str:
    return address(name, {"qpid.flow_stop_count": count, "qpid.flow_resume_count": count})


# Who frees whom


def test_a_blocked_producer_is_freed_by_a_consumer(bench: Bench) -> None:
    """CAP-07: the queue stops the producer's thread; the main thread consumes, and it goes on."""
    sender, consumer = bench.sender(stopping(count=3), capacity=2), bench.consumer("q")

    def produce() -> str:
        for number in range(50):
            sender.send(f"{number}", sync=False)
        sender.sync()
        return "all sent"

    worker = until_waiting(bench, Worker(produce))
    assert 3 < bench.stat("q").msgDepth <= 5, "stop + capacity (CAP-08)"
    received = []
    for _ in range(50):
        received.append(consumer.fetch().content)
        consumer.session.acknowledge()
    assert worker.result() == "all sent"
    assert received == [f"{number}" for number in range(50)]


def give_up(sender: Sender) -> None:
    with pytest.raises(messaging.Timeout):
        sender.send("2", timeout=0)


@pytest.mark.parametrize(
    "call",
    [
        lambda sender: sender.send("2"),
        lambda sender: (sender.send("2", sync=False), sender.sync()),
        lambda sender: [sender.send(text, sync=False) for text in "234"],
        lambda sender: (give_up(sender), sender.session.receiver(address("other"))),
    ],
    ids=["send with sync", "sync", "send into a full window", "a receiver behind a held transfer"],
)
def test_what_blocks_a_producer(bench: Bench, call: Callable[[Sender], object]) -> None:
    """CAP-07, CAP-12: each of the calls that wait for completions, freed by a purge."""
    sender = bench.sender(stopping(), capacity=2)
    sender.send("1")
    worker = until_waiting(bench, Worker(lambda: call(sender)))
    assert bench.stat("q").flowStopped
    bench.stat("q").purge(0)
    assert not isinstance(worker.result(), Exception)


def test_a_thread_that_fetches_for_ever(bench: Bench) -> None:
    """CN-09: it takes what comes, when it comes; with a session of its own and with prefetch."""
    seen: list[object] = []
    all_seen = threading.Event()

    def consume() -> None:
        receiver = bench.new_session().receiver(address("q"), capacity=10)
        while True:
            seen.append(receiver.fetch().content)
            receiver.session.acknowledge()
            if len(seen) == 100:
                all_seen.set()

    worker = until_waiting(bench, Worker(consume))
    bench.send(address("q"), *map(str, range(100)))
    assert all_seen.wait(60)
    assert seen == [f"{number}" for number in range(100)]
    until_waiting(bench, worker)
    assert bench.stat("q").msgDepth == 0
    # LP-06, CN-18: its queue goes, and it learns of that.
    with bench.connection.broker_host:
        bench.broker.management.delete("queue", "q")
    assert isinstance(worker.result(), messaging.SessionError)


@pytest.mark.usefixtures("slow_starts")
def test_a_thread_that_is_about_to_use_the_broker(bench: Bench) -> None:
    """A fetch waits for a thread that was started and has not called anything yet."""
    receiver = bench.receiver(address("q"))
    connection = Connection.establish(bench.url)
    worker = Worker(lambda: (time.sleep(0.2), connection.session().sender("q").send("late")))
    assert receiver.fetch().content == "late"
    worker.join()


# When nothing can free anyone


def test_two_threads_that_wait_for_each_other(bench: Bench) -> None:
    """The first that notices raises, and says so; when its thread has ended, so does the other."""
    receivers = [bench.consumer(address(name)) for name in ("a", "b")]
    workers = [Worker(receiver.fetch) for receiver in receivers]
    errors = [worker.result() for worker in workers]
    assert [type(error) for error in errors] == [messaging.FetchWouldBlock] * 2
    assert all("the other threads that use this broker" in str(error) for error in errors)


def test_a_deadlock_is_the_last_callers(bench: Bench) -> None:
    """The thread that would close the circle gets the error, and can still free the other."""
    sender = bench.sender(stopping(), capacity=1)
    worker = until_waiting(bench, Worker(lambda: [sender.send("x", sync=False) for _ in range(4)]))
    with pytest.raises(messaging.FetchWouldBlock, match="'empty' is empty; the other threads .* wait, too"):
        bench.consumer(address("empty")).fetch()
    assert worker.is_alive()
    with bench.connection.broker_host:
        bench.broker.management.delete("queue", "q")
    assert not isinstance(worker.result(), Exception)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (messaging.SendWouldBlock, lambda sender: [sender.send("x", sync=False) for _ in range(4)]),
        (messaging.SyncWouldBlock, lambda sender: [sender.send("x") for _ in range(4)]),
    ],
)
def test_a_main_thread_that_waits_for_the_end_of_a_blocked_one(
    bench: Bench, error: type[Exception], call: Callable[[object], object]
) -> None:
    """A thread in ``join`` cannot act: the blocked thread raises, instead of both waiting for ever."""
    sender = bench.sender(stopping(), capacity=1)
    assert isinstance(Worker(lambda: call(sender)).result(), error)


# Completions that nobody was asked to report


def lose_reports(bench: Bench, ahead: int = 0) -> Sender:
    """Have ten transfers complete, of which the client is told those that no stopped queue held (RF-48)."""
    sender = bench.sender(stopping(), capacity=10)
    first, second = (bench.consumer("q") for _ in range(2))
    for number in range(ahead):
        bench.new_session().sender("q").send(f"ahead {number}")
    for number in range(10):
        sender.send(f"{number}", sync=False)
    assert contents(drain(first, ahead + 5))[ahead:] == list("01234")
    assert contents(drain(second)) == list("56789")
    for consumer in (second, first):
        consumer.session.acknowledge()
    return sender


UNASKED = "nothing is held, and the client requested no report"


@pytest.mark.parametrize(
    "call",
    [lambda sender: sender.sync(), lambda sender: sender.session.sync(), lambda sender: sender.close()],
    ids=["sync", "session sync", "close"],
)
def test_a_sync_that_never_returns(bench: Bench, call: Callable[[Sender], object]) -> None:
    """RF-48: the numbers of the real client at the real broker; a send with sync settles it."""
    sender = lose_reports(bench)
    channel = bench.session.channel
    assert channel is not None
    assert bench.stat("q").msgDepth == 0
    assert len(channel.engine.completed) == channel.next_number
    assert sender.unsettled() == 9
    with pytest.raises(messaging.SyncWouldBlock, match=f"sync would wait for ever: {UNASKED}") as raised:
        call(sender)
    assert (raised.value.held, raised.value.held_by) == ((), ())
    sender.send("the next", sync=True)
    assert sender.unsettled() == 0


@pytest.mark.parametrize(
    ("ahead", "call", "what"),
    [
        (0, lambda sender: sender.sync(), "sync"),
        (1, lambda sender: sender.send("into a full window", sync=False), "send"),
    ],
)
def test_a_thread_that_waits_for_no_report_is_warned(
    bench: Bench, ahead: int, call: Callable[[Sender], object], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RF-48: while another thread can act, the call blocks as the real one does, and says why.

    An answer that the session is given brings a report of all that is complete.
    """
    monkeypatch.setattr(hosts, "PATIENCE", 0.0)
    sender = lose_reports(bench, ahead)
    assert sender.available() == 1 - ahead
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        worker = Worker(lambda: call(sender))
        wait_until(lambda: caught or not worker.is_alive(), "the thread is warned")
        bench.session.sender(address("elsewhere"))
        assert not isinstance(worker.result(), Exception)
    assert [f"{what} waits for ever: {UNASKED}" in str(one.message) for one in caught] == [True]


def test_a_thread_that_a_consumer_will_free_is_not_warned(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held carries a request to be reported."""
    monkeypatch.setattr(hosts, "PATIENCE", 0.0)
    sender = bench.sender(stopping())
    sender.send("1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker = until_waiting(bench, Worker(lambda: sender.send("2")))
        with pytest.raises(messaging.Timeout):
            bench.new_session().sender("q").send("3", timeout=3 * hosts.POLL)
        bench.stat("q").purge(0)
        assert worker.result() is None


# Several brokers


@pytest.mark.usefixtures("slow_starts")
@pytest.mark.parametrize("has_used", [False, True])
@pytest.mark.parametrize("pause", ["fetch", "sleep"])
def test_a_thread_that_waits_at_another_broker_comes_back(pause: str, has_used: bool) -> None:
    """Its time-out passes at once, as nothing happens here before; then it sends."""
    bench, elsewhere = Bench(), Bench()
    receiver = bench.receiver(address("q"))

    def work() -> None:
        if has_used:
            Connection.establish(bench.url)
        if pause == "sleep":
            sleep(HOUR, elsewhere.url)
        else:
            with suppress(messaging.Empty):
                elsewhere.consumer(address("q")).fetch(timeout=HOUR)
        Connection.establish(bench.url).session().sender("q").send("back")

    worker = until_waiting(elsewhere, Worker(work))
    assert receiver.fetch().content == "back"
    assert worker.result() is None


@pytest.mark.usefixtures("slow_starts")
def test_a_thread_that_waits_for_a_thread_at_another_broker() -> None:
    """Who waits at the second broker is freed by this thread, and then frees who waits at the first."""
    first, second = "chain-1", "chain-2"

    def pass_on() -> None:
        sender = Connection.establish(first).session().sender(address("q"))
        sender.send(Connection.establish(second).session().receiver(address("q")).fetch().content)

    def take() -> object:
        return Connection.establish(first).session().receiver(address("q")).fetch().content

    session = Connection.establish(second).session()
    workers = [Worker(work) for work in (pass_on, take)]
    wait_until(lambda: not {*workers} - {*hosts._waits}, "both threads wait", 10)
    session.sender(address("q")).send("x")
    assert [worker.result() for worker in workers] == [None, "x"]


def test_two_threads_that_wait_for_each_other_at_two_brokers() -> None:
    """Each could free the other, and neither will: the first that notices raises."""
    benches = [Bench(), Bench()]

    def take(bench: Bench) -> object:
        receivers = [one.new_session().receiver(address("q")) for one in benches]
        return receivers[benches.index(bench)].fetch()

    workers = [Worker(lambda bench=bench: take(bench)) for bench in benches]
    assert [type(worker.result()) for worker in workers] == [messaging.FetchWouldBlock] * 2


# Time


def test_virtual_time_passes_when_all_threads_wait(bench: Bench) -> None:
    """From one end of a time-out to the next, not in real time."""
    ends: list[tuple[float, int]] = []

    def wait(seconds: float) -> None:
        receiver = bench.new_session().receiver(address(f"q{seconds:g}"))
        with pytest.raises(messaging.Empty):
            receiver.fetch(timeout=seconds)
        ends.append((seconds, bench.broker.now))

    workers = [Worker(lambda seconds=hours * HOUR: wait(seconds)) for hours in (3, 1, 2)]
    for worker in workers:
        worker.join()
    starts = [now - round(seconds * 1e6) for seconds, now in ends]
    assert [now for _, now in ends] == sorted(now for _, now in ends)
    assert all(start in (0, *(now for _, now in ends)) for start in starts)


def test_a_timer_of_the_broker_frees_a_thread_when_all_wait(bench: Bench) -> None:
    """The cleaner removes what expires; the producer's thread goes on, the consumer's times out."""
    sender = bench.sender(stopping(), capacity=1)

    def produce() -> str:
        sender.send(Message("1", ttl=1), sync=False)
        sender.send(Message("2", ttl=1), sync=False)
        sender.send("3", sync=False)
        return "sent"

    worker = until_waiting(bench, Worker(produce))
    with pytest.raises(messaging.Empty):
        bench.consumer(address("empty")).fetch(timeout=HOUR)
    assert worker.result() == "sent"
    assert bench.stat("q").discardsTtl == 2


def test_a_time_out_ends_in_real_time_while_another_thread_works(bench: Bench) -> None:
    """The main thread does something else, and the worker's fetch ends nevertheless."""
    worker = Worker(lambda: bench.new_session().receiver(address("q")).fetch(timeout=0.05))
    wait_until(lambda: not worker.is_alive(), "the time-out is over")
    assert isinstance(worker.outcome, messaging.Empty)
    assert bench.broker.now == 50_000


def test_sleep_lets_other_threads_work(bench: Bench) -> None:
    """Until all of them wait; then virtual time passes."""
    receiver = bench.consumer(address("q"))
    worker = until_waiting(bench, Worker(lambda: receiver.fetch(timeout=HOUR).content))
    sleep(1, bench.url)
    assert bench.broker.now == 1_000_000
    bench.sender("q").send("x")
    assert worker.result() == "x"


# What goes wrong in one thread


def test_the_death_of_a_session_leaves_the_waits_of_another(bench: Bench) -> None:
    """CAP-07: a rival's overflow ends the rival's session only; a purge frees who is blocked."""
    sender = bench.new_session().sender(
        address("full", {"qpid.max_count": 2, "qpid.flow_stop_count": 1}), capacity=1
    )
    worker = until_waiting(bench, Worker(lambda: [sender.send("x", sync=False) for _ in range(3)]))
    rival = bench.new_session().sender("full")
    with pytest.raises(messaging.TargetCapacityExceeded):
        rival.send("x")
    assert worker.is_alive()
    bench.stat("full").purge(0)
    assert not isinstance(worker.result(), Exception)


def test_closing_from_another_thread(bench: Bench) -> None:
    """A session that is closed while a thread fetches on it."""
    receiver = bench.consumer(address("q"))
    worker = until_waiting(bench, Worker(receiver.fetch))
    receiver.close()
    assert isinstance(worker.result(), Exception)


# Many of them


class Run:
    """Producers and consumers on one queue, each a thread with a connection of its own."""

    PRODUCERS = CONSUMERS = 10
    CAPACITY = 7
    STOP = 100

    def __init__(self, messages: int) -> None:
        self.bench = Bench()
        self.messages = messages
        self.deepest = 0
        self.bench.sender(stopping(count=self.STOP))

    def session(self) -> Session:
        return Connection.establish(self.bench.url).session()

    def produce(self, name: str) -> int:
        session = self.session()
        sender = session.sender("q", capacity=self.CAPACITY)
        for number in range(self.messages):
            sender.send(f"{name} {number}", sync=False)
            self.deepest = max(self.deepest, self.bench.broker.queue("q").message_depth)
        sender.sync()
        session.connection.close()
        return self.messages

    def consume(self, prefetch: int) -> list[tuple[str, int]]:
        receiver = self.session().receiver("q", capacity=prefetch)
        received = []
        try:
            while True:
                name, number = str(receiver.fetch().content).split()
                received.append((name, int(number)))
                receiver.session.acknowledge(sync=prefetch != 3)
        except messaging.FetchWouldBlock:
            receiver.session.connection.close()
        return received


@pytest.fixture
def eager_switching() -> Iterator[None]:
    """Let Python change threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switching", "slow_starts")
@pytest.mark.parametrize("messages", [100, pytest.param(10_000, marks=pytest.mark.release)])
def test_twenty_threads_lose_no_message_and_keep_the_depth_bound(messages: int) -> None:
    """Each message arrives once, each producer's in order; depth stays within stop + Σ capacity (CAP-08)."""
    run = Run(messages)
    consumers = [Worker(lambda prefetch=n % 4: run.consume(prefetch)) for n in range(run.CONSUMERS)]
    producers = [Worker(lambda name=f"p{n}": run.produce(name)) for n in range(run.PRODUCERS)]
    assert [worker.result() for worker in producers] == [messages] * run.PRODUCERS
    received = [worker.result() for worker in consumers]
    assert [one for one in received if not isinstance(one, list)] == []
    for one in received:
        for name in {name for name, _ in one}:
            numbers = [number for its, number in one if its == name]
            assert numbers == sorted(numbers)
    counts = Counter(entry for one in received for entry in one)
    assert len(counts) == messages * run.PRODUCERS
    assert set(counts.values()) == {1}
    queue = run.bench.stat("q")
    assert (queue.msgTotalEnqueues, queue.msgTotalDequeues, queue.msgDepth) == (len(counts), len(counts), 0)
    assert not queue.flowStopped
    assert run.deepest <= run.STOP + run.PRODUCERS * run.CAPACITY
    assert run.bench.broker.state_hash() == run.bench.broker.restore(run.bench.broker.snapshot()).state_hash()
