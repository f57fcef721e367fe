"""What holds whatever clients do: Hypothesis drives the engine, a ledger watches it.

Two profiles: ``ci`` is small and always the same; ``QFLOW_PROFILE=explore`` looks for longer, and elsewhere
each time.
"""

from __future__ import annotations

import os
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ledger import KINDS, Ledger
from support import BYTES, GROUP, INFINITE, MESSAGES, Bench, Reader, arguments, sized, through_json, visible

from qflow.broker import Broker, BrokerOptions, Event, Session
from qflow.broker.completions import RangeSet
from qflow.broker.errors import AmqpException, ManagementError

settings.register_profile(
    "ci",
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    max_examples=3000,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = settings.get_profile(os.environ.get("QFLOW_PROFILE", "ci"))

# Flow control at any thresholds, with the ledger beside it


def thresholds() -> st.SearchStrategy[tuple[int, int]]:
    """Stop and resume of one unit: resume at most stop; without stop, any residue."""
    return st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(
        lambda pair: not pair[0] or pair[1] <= pair[0]
    )


FLOW_MOVES = st.one_of(
    st.tuples(
        st.just("send"),
        st.sampled_from(["p", "r"]),
        st.sampled_from([("x",), ("y",), ("x", "y")]),
        st.sampled_from([100, 100, 200, 150]),
    ),
    st.tuples(st.sampled_from(["take", "take", "purge"]), st.sampled_from(["x", "y"])),
    st.tuples(
        st.sampled_from(["accept", "reject", "release"]), st.sampled_from(["x", "y"]), st.integers(0, 5)
    ),
)


@settings(PROFILE, max_examples=2 * PROFILE.max_examples)
@given(
    st.lists(st.tuples(thresholds(), thresholds()), min_size=2, max_size=2),
    st.lists(FLOW_MOVES, min_size=20, max_size=40),
)
def test_flow_control_at_any_thresholds(given_levels, moves):
    """FC-13, FC-14, FC-15, FC-16, FC-17, FC-18, FC-19, FC-20, CM-03: two queues, a fanout, two producers."""
    bench = Bench()
    levels: dict[str, tuple[int, int, int, int]] = {}
    ledger = Ledger(levels.__getitem__)
    bench.broker.observe(lambda event: (bench.events.append(event), ledger.take(event)))
    readers: dict[str, Reader] = {}
    taken: dict[str, list[str]] = {"x": [], "y": []}
    for name, ((stop_count, resume_count), (stop_size, resume_size)) in zip("xy", given_levels, strict=True):
        stop_size, resume_size = 100 * stop_size, 100 * resume_size
        # FC-05.2: a resume of 0 becomes stop; FC-09: that of a unit without stop stays, and takes part.
        levels[name] = (stop_count, resume_count or stop_count, stop_size, resume_size or stop_size)
        bench.declare(
            name, max_size=0, flow_stop_count=stop_count, flow_resume_count=resume_count,
            flow_stop_size=stop_size, flow_resume_size=resume_size,
        )  # fmt: skip
        bench.bind(name, "amq.fanout")
        readers[name] = bench.idle(name, f"reader of {name}")
    for move, name, *more in moves:
        if move == "send":
            queues, size = more
            exchange, key = ("", queues[0]) if len(queues) == 1 else ("amq.fanout", "")
            bench.send(key, by=name, size=size, exchange=exchange)
        elif move == "take":
            taken[name] += filter(None, [readers[name].fetch()])
        elif move == "purge":
            bench.ctl.queue_purge(name)
        elif taken[name]:
            getattr(readers[name], move)(taken[name].pop(more[0] % len(taken[name])))
        ledger.end_command()
        ledger.check(bench.broker)


# Message groups against a model straight from the rule book's text


class NaiveGroups:
    """MG-06 … MG-10, MG-16, MG-20: messages, each perhaps held; a group belongs to who holds of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.messages: dict[str, str] = {}
        self.holder: dict[str, str] = {}
        self.redelivered: set[str] = set()

    def owner(self, group: str) -> str:
        return next((self.holder[m] for m, g in self.messages.items() if g == group and m in self.holder), "")

    def send(self, label: str, group: str) -> None:
        while self.limit and len(self.messages) >= self.limit:
            self.remove(next(iter(self.messages)))
        self.messages[label] = group

    def fetch(self, consumer: str) -> str:
        for label, group in self.messages.items():
            if label not in self.holder and self.owner(group) in ("", consumer):
                self.holder[label] = consumer
                return label
        return ""

    def remove(self, label: str) -> None:
        self.messages.pop(label, None)
        self.holder.pop(label, None)

    def release(self, label: str) -> None:
        self.holder.pop(label, None)

    def close(self, consumer: str) -> None:
        self.holder = {label: who for label, who in self.holder.items() if who != consumer}

    def purge(self) -> None:
        for label in [label for label in self.messages if label not in self.holder]:
            self.remove(label)

    def state(self) -> dict[str, tuple[int, str]]:
        counts = Counter(self.messages.values())
        return {group: (count, self.owner(group)) for group, count in counts.items()}


CONSUMERS = ["c1", "c2", "c3"]
GROUP_MOVES = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("ABC")),
    st.tuples(st.just("fetch"), st.sampled_from(CONSUMERS)),
    st.tuples(st.just("fetch"), st.sampled_from(CONSUMERS)),
    st.tuples(
        st.sampled_from(["accept", "reject", "release"]), st.sampled_from(CONSUMERS), st.integers(0, 5)
    ),
    st.tuples(st.sampled_from(["close", "resubscribe"]), st.sampled_from(CONSUMERS)),
    st.tuples(st.just("purge"), st.just("")),
)


@settings(PROFILE, max_examples=2 * PROFILE.max_examples)
@given(st.sampled_from([0, 0, 3, 5]), st.lists(GROUP_MOVES, min_size=20, max_size=50))
def test_groups_against_a_naive_model(limit, moves):
    """MG-06, MG-07, MG-08, MG-09, MG-10, MG-11, MG-15, MG-16, MG-18, MG-19, MG-20: three that fetch."""
    bench = Bench()
    bench.group("q", **({"policy_type": "ring", "max_count": limit} if limit else {}))
    naive = NaiveGroups(limit)
    readers = {name: bench.idle("q", name) for name in CONSUMERS}
    taken: dict[str, list[str]] = {name: [] for name in CONSUMERS}
    number = 0
    for move, name, *more in moves:
        if move == "send":
            number += 1
            bench.send_groups("q", f"{name}-{number}")
            naive.send(f"{name}-{number}", name)
        elif move == "fetch":
            label = naive.fetch(f"{name}::s")
            assert readers[name].fetch() == label
            if label:
                taken[name].append(label)
        elif move == "close":
            readers[name].session.close()
            naive.close(f"{name}::s")
            taken[name].clear()
            bench.broker.session(name)
            readers[name] = bench.idle("q", name)
        elif move == "resubscribe":
            readers[name].cancel()
            readers[name] = bench.idle("q", name)
        elif move == "purge":
            bench.ctl.queue_purge("q")
            naive.purge()
        elif taken[name]:
            label = taken[name].pop(more[0] % len(taken[name]))
            getattr(readers[name], move)(label)
            if move == "release":
                naive.release(label)
            else:
                naive.remove(label)
        assert bench.owners("q") == naive.state()
        assert bench.stat("q").messageCount == len(naive.messages) - len(naive.holder)


@settings(PROFILE)
@given(st.lists(st.integers(0, 30)))
def test_range_set_against_a_set(numbers):
    """CM-04: the same members, in disjoint ranges that do not touch."""
    ranges, members = RangeSet(), set()
    for number in numbers:
        ranges.add(number)
        members.add(number)
        assert (list(ranges), len(ranges)) == (sorted(members), len(members))
        pairs = ranges.ranges()
        assert all(last + 1 < first for (_, last), (first, _) in zip(pairs, pairs[1:], strict=False))


# The whole engine


Command = tuple[str, str, dict[str, object]]
"""What a client does, as plain data: method, session (or "management" or "clock"), arguments."""


def perform(broker: Broker, command: Command) -> str:
    """Carry out a command; return what the broker refuses it with, or ""."""
    method, who, given_arguments = command
    try:
        if who == "clock":
            broker.advance(broker.now + given_arguments["by"])
        elif who == "management":
            getattr(broker.management, method)(**given_arguments)
        else:
            getattr(attached(broker, who), method)(**given_arguments)
    except (AmqpException, ManagementError) as error:
        return str(error)
    return ""


def attached(broker: Broker, name: str) -> Session:
    """Return the session of a name; a new one, if the last one is gone."""
    found = broker.sessions.get(name)
    return found if found is not None and found.is_attached else broker.session(name)


PRODUCERS = ["p", "r", "t"]
READERS = ["c", "d", "t"]
QUEUES = ["a", "b", "e"]

ILLEGAL: dict[str, Command] = {
    "transfer to nowhere": ("message_transfer", "", {"message": sized(100), "exchange": "nowhere"}),
    "cancel nothing": ("message_cancel", "", {"tag": "nothing"}),
    "credit for nothing": ("message_flow", "", {"tag": "nothing", "unit": 0, "value": 1}),
    "subscribe to nothing": ("message_subscribe", "", {"queue": "nowhere", "tag": "new"}),
    "subscribe without a name": ("message_subscribe", "", {"queue": "", "tag": "new"}),
    "a bad argument": ("queue_declare", "", {"queue": "new", "arguments": {"qpid.max_count": "x"}}),
    "bad thresholds": (
        "queue_declare",
        "",
        {"queue": "new", "arguments": arguments(flow_stop_size=1, max_size=9)},
    ),
    "a bad alternate": ("queue_declare", "", {"queue": "new", "alternate_exchange": "nowhere"}),
    "delete nothing": ("queue_delete", "", {"queue": "nowhere"}),
    "purge nothing": ("queue_purge", "", {"queue": "nowhere"}),
    "a bad type": ("exchange_declare", "", {"exchange": "new", "type": "star"}),
    "bind to the default": ("exchange_bind", "", {"queue": "a", "exchange": ""}),
    "delete amq.fanout": ("exchange_delete", "", {"exchange": "amq.fanout"}),
}


class Engine(RuleBasedStateMachine):
    """Producers, consumers, browsers, a transactional session and an administrator do as they please."""

    def __init__(self) -> None:
        super().__init__()
        self.options = BrokerOptions(default_queue_limit=0)
        self.broker = Broker(self.options)
        self.kinds: dict[str, str] = {}
        self.ledger = Ledger(lambda queue: KINDS[self.kinds[queue]][1])
        self.commands: list[Command] = []
        self.twin: Broker | None = None
        self.steps_with_twin = 0
        self.labels = 0
        self.broker.observe(self.ledger.take)

    # Doing

    def do(self, method: str, who: str, **given_arguments: object) -> str:
        """Carry a command out, on the twin as well if there is one, and close the books on it."""
        command = (method, who, given_arguments)
        self.commands.append(command)
        if self.twin is not None:
            return self.do_twice(command)
        outcome = perform(self.broker, command)
        self.ledger.end_command()
        return outcome

    def do_twice(self, command: Command) -> str:
        """Restored from a snapshot, a broker does the same: same answer, same events, same hash."""
        told: list[list[Event]] = [[], []]
        self.broker.observe(lambda event: (told[0].append(event), self.ledger.take(event)))
        self.twin.observe(told[1].append)
        outcome, same = perform(self.broker, command), perform(self.twin, command)
        self.ledger.end_command()
        self.broker.observe(self.ledger.take)
        assert outcome == same
        assert told[0] == told[1]
        self.steps_with_twin -= 1
        if not self.steps_with_twin:
            self.part()
        return outcome

    def part(self) -> None:
        """The twin goes after one to six steps: what one of them made different would still be."""
        assert self.broker.state_hash() == self.twin.state_hash()
        self.twin = None

    def subscriptions(self) -> list[tuple[str, str]]:
        return [
            (name, tag)
            for name in READERS
            if name in self.broker.sessions and self.broker.sessions[name].is_attached
            for tag in self.broker.sessions[name].consuming.subscriptions
        ]

    def queues(self) -> list[str]:
        return list(self.broker.queues.queues)

    # Administration

    @initialize(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=3, unique=True))
    def begin(self, kinds):
        for name, kind in zip(QUEUES, kinds, strict=False):
            self.declare_queue(name, kind, alternate=name == "b")
        for who, queue, messages in (("c", "a", INFINITE), ("d", "a", 3), ("d", "b", INFINITE)):
            self.begin_to_read(who, queue, queue, 0, 0, 0, messages, INFINITE)

    def declare_queue(self, queue: str, kind: str, alternate: bool) -> None:
        """Declare and bind it; its alternate may lead to other queues, and back to itself."""
        self.kinds[queue] = kind
        self.do(
            "queue_declare",
            "ctl",
            queue=queue,
            arguments=KINDS[kind][0],
            alternate_exchange="amq.fanout" if alternate else "",
        )
        self.do("exchange_bind", "ctl", queue=queue, exchange="amq.fanout")

    @rule(
        action=st.sampled_from(
            ["declare", "declare", "declare", "purge", "move", "reroute", "advance", "unbind", "delete"]
        ),
        kind=st.sampled_from(sorted(KINDS)),
        first=st.integers(0, 2),
        second=st.integers(0, 2),
        count=st.integers(0, 2),
        flag=st.booleans(),
    )
    def administrate(self, action, kind, first, second, count, flag):
        missing = [name for name in QUEUES if name not in self.queues()]
        if action == "declare" and missing:
            self.declare_queue(missing[0], kind, flag)
            return
        if action == "advance" or not self.queues():
            self.do("advance", "clock", by=[1, 3, 2000][count] * 1000)
            return
        name, other = (self.queues()[index % len(self.queues())] for index in (first, second))
        if action == "delete":
            self.do("queue_delete", "ctl", queue=name, if_empty=flag)
        elif action == "purge" and flag:
            self.do("queue_purge", "ctl", queue=name)
        elif action == "purge":
            self.do("purge", "management", queue=name, request=count)
        elif action == "unbind":
            self.do("exchange_unbind", "ctl", queue=name, exchange="amq.fanout")
        elif action == "move":
            self.do("queueMoveMessages", "management", srcQueue=name, destQueue=other, qty=count)
        elif action == "reroute":
            self.do("reroute", "management", queue=name, request=count, exchange="amq.fanout")

    # Producing

    @rule(
        who=st.sampled_from(PRODUCERS),
        goal=st.sampled_from([*QUEUES, *QUEUES, "fanout", "fanout", "nobody"]),
        messages=st.lists(
            st.tuples(
                st.sampled_from([100, 150, 260]),
                st.sampled_from(["A", "B", "C", None]),
                st.sampled_from([None, 4, 9]),
                st.sampled_from([0, 0, 0, 2]),
            ),
            min_size=1,
            max_size=4,
        ),
        sync=st.booleans(),
    )
    def send(self, who, goal, messages, sync):
        exchange, key = ("amq.fanout", "") if goal == "fanout" else ("", goal)
        for size, group, priority, ttl in messages:
            self.labels += 1
            label = f"m{self.labels}"
            headers = None if group is None else {GROUP: group}
            message = sized(
                size, exchange, routing_key=key, headers=headers, priority=priority, ttl=ttl, label=label
            )
            outcome = self.do("message_transfer", who, message=message, exchange=exchange, sync=sync)
            known = label in self.ledger.fates or self.ledger.sent[label].in_transaction
            assert known or outcome, "a message is on a queue, dropped, unroutable or refused"
            if outcome:
                assert outcome.startswith(("resource-limit-exceeded", "not-implemented: ring queue")), outcome
                break

    @rule(who=st.sampled_from(PRODUCERS))
    def sync(self, who):
        session = self.broker.sessions.get(who)
        if session is not None and session.is_attached:
            number = session.completions.next_number
            self.ledger.syncs.setdefault(self.ledger.life(who), []).append(number)
            self.do("execution_sync", who)

    # Consuming

    @precondition(lambda self: self.queues())
    @rule(
        who=st.sampled_from(READERS),
        tag=st.sampled_from(["s", "u", "v"]),
        index=st.integers(0, 2),
        accept_none=st.sampled_from([0, 0, 0, 1]),
        browse=st.sampled_from([0, 0, 0, 1]),
        mode=st.sampled_from([0, 0, 1]),
        messages=st.sampled_from([3, INFINITE, 1, 0]),
        volume=st.sampled_from([INFINITE, INFINITE, 200]),
    )
    def subscribe(self, who, tag, index, accept_none, browse, mode, messages, volume):
        if (who, tag) in self.subscriptions():
            return
        queue = self.queues()[index % len(self.queues())]
        self.begin_to_read(who, tag, queue, accept_none, browse, mode, messages, volume)

    def begin_to_read(
        self, who: str, tag: str, queue: str, accept: int, acquire: int, mode: int, messages: int, volume: int
    ) -> None:
        """Subscribe, choose a mode, grant bytes and messages, as far as the session lives."""
        self.do("message_subscribe", who, queue=queue, tag=tag, accept_mode=accept, acquire_mode=acquire)
        for method, given_arguments in (
            ("message_set_flow_mode", {"flow_mode": mode}),
            ("message_flow", {"unit": BYTES, "value": volume}),
            ("message_flow", {"unit": MESSAGES, "value": messages}),
        ):
            if (who, tag) in self.subscriptions():
                self.do(method, who, tag=tag, **given_arguments)

    @precondition(lambda self: self.subscriptions())
    @rule(
        index=st.integers(0, 5),
        how=st.sampled_from(
            ["fetch", "fetch", "grant", "grant", "message_stop", "message_flush", "cancel", "mode"]
        ),
        unit=st.integers(0, 1),
        value=st.sampled_from([0, 1, 2, 150, INFINITE]),
    )
    def use(self, index, how, unit, value):
        who, tag = self.subscriptions()[index % len(self.subscriptions())]
        if how == "grant":
            self.do("message_flow", who, tag=tag, unit=unit, value=value)
        elif how == "mode":
            self.do("message_set_flow_mode", who, tag=tag, flow_mode=unit)
        else:
            self.do("message_cancel" if how == "cancel" else how, who, tag=tag)

    def outstanding(self) -> list[tuple[str, list[int]]]:
        """Sessions with deliveries that are remembered, and their numbers."""
        found = [(name, self.broker.sessions.get(name)) for name in READERS]
        return [
            (name, list(session.consuming.records))
            for name, session in found
            if session is not None and session.is_attached and session.consuming.records
        ]

    @precondition(lambda self: self.outstanding())
    @rule(
        index=st.integers(0, 2),
        picks=st.lists(st.integers(0, 7), min_size=1, max_size=4),
        how=st.sampled_from(
            ["accept", "accept", "accept", "reject", "release", "redeliver", "acquire", "complete"]
        ),
    )
    def settle(self, index, picks, how):
        who, records = self.outstanding()[index % len(self.outstanding())]
        numbers = sorted({records[pick % len(records)] for pick in picks})
        if how == "complete":
            self.do("session_completed", who, transfers=numbers)
        elif how in ("release", "redeliver"):
            self.do("message_release", who, transfers=numbers, set_redelivered=how == "redeliver")
        else:
            self.do(f"message_{how}", who, transfers=numbers)

    @precondition(lambda self: self.outstanding())
    @rule(index=st.integers(0, 2))
    def accept_everything(self, index):
        who, records = self.outstanding()[index % len(self.outstanding())]
        self.do("message_accept", who, transfers=records)
        self.do("session_completed", who, transfers=records)

    # Transactions, ends, twins, mistakes

    @rule(method=st.sampled_from(["tx_commit", "tx_commit", "tx_rollback"]))
    def transact(self, method):
        session = self.broker.sessions.get("t")
        if session is None or not session.is_attached or session.transaction is None:
            self.do("tx_select", "t")
            return
        number, life = session.completions.next_number, self.ledger.life("t")
        outcome = self.do(method, "t")
        assert outcome in ("", "internal-error: Transaction prepare failed.")
        if method == "tx_commit" and not outcome:
            self.ledger.syncs.setdefault(life, []).append(number)

    @precondition(lambda self: self.twin is None)
    @rule(steps=st.integers(1, 6))
    def fork(self, steps):
        before = self.broker.state_hash()
        self.twin = through_json(self.broker)
        self.steps_with_twin = steps
        assert self.twin.state_hash() == before == self.broker.state_hash()
        assert visible(self.twin) == visible(self.broker)

    @rule(
        who=st.sampled_from([*PRODUCERS, *READERS]),
        mistake=st.sampled_from([*sorted(ILLEGAL), "none"]),
        really=st.sampled_from([False, False, False, True]),
    )
    def end(self, who, mistake, really):
        """LP-06, CN-17: after a mistake the broker is as if the session had been closed."""
        session = self.broker.sessions.get(who)
        if session is None or not session.is_attached or not really:
            return
        if mistake == "none":
            self.do("close", who)
            return
        twin = through_json(self.broker)
        method, _, given_arguments = ILLEGAL[mistake]
        assert self.do(method, who, **given_arguments) != ""
        if mistake == "transfer to nowhere":
            self.ledger.forget(next(reversed(self.ledger.sent)))
        twin.sessions[who].close()
        assert not self.broker.sessions[who].is_attached
        assert visible(self.broker, without=who) == visible(twin, without=who)

    # What always holds

    @invariant()
    def invariants(self):
        """DQ-01, DQ-03, FC-14 … FC-19, LP-02, CF-09, CF-10, CM-02 … CM-07, MG-06 … MG-08: as in the books."""
        self.ledger.check(self.broker)

    def teardown(self):
        """The same commands on a new broker give the same hash."""
        if self.twin is not None:
            self.part()
        again = Broker(self.options)
        for command in self.commands:
            perform(again, command)
        assert again.state_hash() == self.broker.state_hash()


TestEngine = Engine.TestCase
TestEngine.settings = PROFILE
