"""Random commands to a broker, for the tests of traces: drawn by Hypothesis, given by a Cast of clients."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from hypothesis import strategies as st

from qflow.broker import Broker, BrokerOptions, Message
from qflow.broker.errors import AmqpException, ManagementError

QUEUES = {
    "flow": {"qpid.max_count": 8, "qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2},
    "size": {"qpid.max_size": 1000, "qpid.flow_stop_size": 400, "qpid.flow_resume_size": 200},
    "ring": {"qpid.policy_type": "ring", "qpid.max_count": 3},
    "team": {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1},
    "last": {"qpid.last_value_queue_key": "group"},
    "prio": {"qpid.priorities": 5, "qpid.alert_count": 3},
}
PRODUCERS, CONSUMERS = ("P1", "P2"), ("C1", "C2")
producers, consumers, clients = map(st.sampled_from, (PRODUCERS, CONSUMERS, PRODUCERS + CONSUMERS))
queue_names = st.sampled_from(sorted(QUEUES))
numbers = st.lists(st.integers(0, 12), min_size=1, max_size=4)
groups, times_to_live = st.sampled_from(["", "a", "b"]), st.sampled_from([0, 0, 0, 300])
verdicts = st.sampled_from(["message_accept", "message_release", "message_reject", "session_completed"])
transactions = st.sampled_from(["tx_select", "tx_commit", "tx_rollback"])
calls = st.sampled_from(
    [
        ("queueMoveMessages", "flow", "ring", 2),
        ("queueMoveMessages", "flow", "nowhere", 2),
        ("purge", "size", 1),
        ("reroute", "flow", 1, False, "amq.fanout"),
        ("queueRedirect", "flow", "size"),
        ("queueRedirect", "flow"),
        ("create", "queue", "late", {"qpid.max_count": 2}),
        ("delete", "queue", "late"),
        ("query", "queue", "team"),
    ]
)


def command(name, *arguments):
    """Draw a command of a Cast, by its method's name, with drawn arguments."""
    return st.tuples(st.just(name), *arguments)


COMMON = [
    command("advance", st.integers(0, 400_000)),
    command(
        "send",
        *(producers, queue_names, st.integers(0, 30), groups),
        *(st.integers(0, 5), st.booleans(), times_to_live),
    ),
    command("join", consumers, queue_names, st.integers(0, 1), st.integers(1, 6)),
    command("credit", consumers, queue_names, st.integers(1, 3)),
    command("settle", consumers, verdicts, numbers),
    command("call", clients, st.just("execution_sync")),
    command("call", consumers, st.just("session_flush")),
    command("leave", clients),
    command("purge", producers, queue_names),
]
ALL = [
    *COMMON,
    command("call", producers, transactions),
    command("write", consumers, queue_names, numbers),
    command("fetch", consumers, queue_names),
    command("odd", producers),
    command("bad", producers),
    command("select", consumers, queue_names),
    command("manage", calls),
]
common_commands = st.lists(st.one_of(COMMON), max_size=40)
all_commands = st.lists(st.one_of(ALL), max_size=40)


class Cast:
    """Clients of one topology on a broker; every name they use goes through ``name``."""

    def __init__(self, broker, name=lambda text: text, scale=1):
        self.broker, self.name, self.scale = broker, name, scale
        setup = broker.session(name("setup"))
        for queue, arguments in QUEUES.items():
            scaled = {
                key: value * scale if key.endswith("size") else value for key, value in arguments.items()
            }
            setup.queue_declare(name(queue), scaled)
            setup.exchange_bind(
                name(queue), "amq.fanout" if name(queue) == queue else "amq.direct", name("key")
            )
        setup.close()

    def session(self, client):
        session = self.broker.sessions.get(self.name(client))
        if session is None or not session.is_attached:
            session = self.broker.session(self.name(client))
        return session

    def play(self, commands):
        for command in commands:
            self.give(command)
        return self

    def give(self, command):
        with suppress(AmqpException, ManagementError):
            getattr(self, command[0])(*command[1:])

    def advance(self, time):
        self.broker.advance(self.broker.now + time)

    def send(self, client, queue, size, group, priority, sync, ttl):
        headers = {"group": group} if group else None
        message = Message(size * 10 * self.scale, self.name(queue), headers, priority=priority, ttl=ttl)
        self.session(client).message_transfer(message, sync=sync)

    def join(self, client, queue, mode, credit):
        # The tag is not renamed: as in the real broker, a session's subscriptions are woken and ended in
        # the order of their tags (RF-04), so there a name's place in the alphabet does matter.
        session = self.session(client)
        session.message_subscribe(self.name(queue), queue)
        session.message_set_flow_mode(queue, mode)
        session.message_flow(queue, 1, 0xFFFFFFFF)
        session.message_flow(queue, 0, credit)

    def credit(self, client, queue, count):
        self.session(client).message_flow(queue, 0, count)

    def settle(self, client, method, numbers):
        # An iterator, which can be read once only.
        getattr(self.session(client), method)(iter(numbers))

    def call(self, client, method):
        getattr(self.session(client), method)()

    def leave(self, client):
        self.session(client).close()

    def purge(self, client, queue):
        self.session(client).queue_purge(self.name(queue))

    def write(self, client, queue, numbers):
        session = self.session(client)
        with session.pipeline():
            session.message_accept(numbers)
            session.message_transfer(Message(10, self.name(queue)), sync=True)
            session.message_flow(queue, 0, 1)
            session.message_transfer(Message(10, self.name(queue)), sync=True)
        with session.pipeline():
            session.session_completed(numbers)

    def fetch(self, client, queue):
        session = self.session(client)
        # With the sync flag, as qpid.messaging sends what it waits for.
        session.completions.report_when_complete(session.completions.next_number)
        session.message_flow(queue, 1, 1000)
        session.fetch(queue)

    def odd(self, client):
        headers = {"b": b"\x00", "u": UUID(int=7), "f": float("inf"), "l": [1, {"$x": "é"}], "n": None}
        message = Message(3, self.name("flow"), headers, label="odd one", message_id=UUID(int=9))
        self.session(client).message_transfer(message, "amq.fanout")

    def bad(self, client):
        self.session(client).queue_delete(queue="nowhere", if_empty=True)

    def select(self, client, queue):
        session = self.session(client)
        session.message_subscribe(self.name(queue), "sel", arguments={"x-apache-selector": "group = 'a'"})
        session.message_flow("sel", 1, 0xFFFFFFFF)
        session.message_flow("sel", 0, 2)

    def manage(self, call):
        getattr(self.broker.management, call[0])(*call[1:])


def fresh(**options):
    return Broker(BrokerOptions(queue_purge_interval=1, **options))
