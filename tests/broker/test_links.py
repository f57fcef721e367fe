"""Links of AMQP 1.0 on the engine alone: what each rule says beyond its recordings (LNK).

tests/live/test_scenarios10 plays those, and says which rule each is of.
"""

import random
import re

import pytest

from qflow.broker import Broker, Message
from qflow.broker.errors import LinkException, ManagementError, ResourceLimitExceededException
from qflow.broker.link_nodes import _NodePolicy
from qflow.broker.links import MAX_UNACKED, SELECTOR_FILTER, TOPIC_FILTER, condition_of
from qflow.broker.snapshot import hash_snapshot
from qflow.trace.replaying import Replay, record


class Bench:
    """A broker, one client that sends, and clients that receive; what they are told, in order."""

    def __init__(self, arguments=None, kind="queue", name="q"):
        self.broker = Broker()
        self.trace = record(self.broker)
        self.broker.management.create(kind, name, arguments or {})
        self.sender = self.broker.link_session("s", container="s")
        self.outcomes, self.got, self.closed = [], [], []
        self.sender.on_outcome = lambda tag, number: self.outcomes.append(number)

    def attach_sender(self, address="q", tag="out", **options):
        return self.sender.link_attach(tag, "sender", address, options)

    def send(self, count=1, tag="out", size=100, transactional=False, **properties):
        made = []
        for _ in range(count):
            message = Message(size, "q", **properties)
            made.append(self.sender.message_transfer(message, tag=tag, transactional=transactional))
        return made

    def receiver(self, name="r", address="q", credit=0, tag="in", **options):
        session = self.broker.sessions.get(name)
        if session is None or not session.is_attached:
            session = self.broker.link_session(name, container=name)
            session.consuming.on_delivery = lambda record: self.got.append(record)
            session.on_link_closed = lambda tag, error: self.closed.append((tag, *condition_of(error)))
        session.link_attach(tag, "receiver", address, options)
        if credit:
            session.message_flow(tag, 0, credit)
        return session

    def taken(self):
        """Return the positions of the messages delivered since the last time, with their counts."""
        seen = [(record.message.position, record.message.delivery_count) for record in self.got]
        self.got.clear()
        return seen

    def replays(self):
        """Whether the trace of all this comes back, and with it the state."""
        again = Replay(self.trace).run()
        return again == self.trace


@pytest.fixture
def bench():
    made = Bench()
    made.attach_sender()
    return made


def test_the_size_that_counts_is_that_of_the_encoded_message():
    """LNK-04: nothing is added to it, whatever headers there are."""
    bench = Bench({"qpid.max_size": 250, "qpid.flow_stop_size": 0})
    bench.attach_sender()
    bench.send(2, size=113, headers={"a": "long" * 30})
    assert bench.broker.queue("q").byte_depth == 226
    with pytest.raises(ResourceLimitExceededException):
        bench.send(1, size=25)
    assert bench.send(1, size=24)[0].is_complete


def test_a_deleted_queue_closes_links_at_once_or_when_they_give_credit():
    """LNK-09: the text for the sender begins with a blank."""
    bench = Bench({"qpid.flow_stop_count": 1})
    bench.attach_sender()
    bench.send(3)
    spent = bench.receiver("spent", credit=3)
    bench.receiver("spare", credit=1)
    bench.broker.management.delete("queue", "q")
    gone = ("in", "amqp:resource-deleted", "resource-deleted: Queue q has been deleted.")
    assert bench.closed == [gone]
    assert bench.outcomes == [2, 3]
    spent.message_flow("in", 0, 1)
    assert bench.closed == [gone, gone]
    with pytest.raises(LinkException) as refusal:
        bench.send(1)
    assert condition_of(refusal.value) == ("amqp:resource-deleted", " Queue q has been deleted")
    assert bench.replays()


def test_settling_gives_no_credit_back_and_drain_takes_the_rest_away(bench):
    """LNK-10."""
    bench.send(4)
    session = bench.receiver(credit=2)
    session.message_accept([0, 1])
    assert bench.taken() == [(1, 0), (2, 0)]
    session.message_flow("in", 0, 10)
    session.message_flush("in")
    assert bench.taken() == [(3, 0), (4, 0)]
    bench.send(1)
    assert bench.taken() == []
    session.message_flow("in", 0, 1)
    assert bench.taken() == [(5, 0)]


def test_one_old_delivery_blocks_the_ring(bench):
    """LNK-11: seen with five slots; 2 and 3 settled free nothing, 0 frees one, 1 three more."""
    bench.send(12)
    session = bench.receiver()
    link = session.consuming.subscriptions["in"]
    assert link.capacity == MAX_UNACKED == 5_000
    link.capacity = 5
    session.message_flow("in", 0, 20)
    assert len(bench.taken()) == 5
    session.message_accept([2, 3])
    assert bench.taken() == []
    session.message_accept([0])
    assert bench.taken() == [(6, 0)]
    session.message_accept([1])
    assert bench.taken() == [(7, 0), (8, 0), (9, 0)]


def test_undeliverable_here_is_for_one_link_only(bench):
    """LNK-12: another link of the same client does get it, with the annotations."""
    bench.send(1)
    session = bench.receiver(credit=1)
    session.message_modify([0], False, True, {"x-why": "no"})
    session.message_flow("in", 0, 5)
    bench.taken()
    assert bench.got == []
    bench.receiver(credit=5, tag="second")
    assert [record.message.annotations for record in bench.got] == [{"x-why": "no"}]
    assert bench.replays()


def test_a_browser_s_outcomes_change_nothing(bench):
    """LNK-12, and it does not see what is taken."""
    bench.send(3)
    bench.receiver("other", credit=1)
    bench.taken()
    browser = bench.receiver(credit=10, copy=True)
    assert [position for position, _ in bench.taken()] == [2, 3]
    for settle in (browser.message_release, browser.message_reject, browser.message_modify):
        settle([0])
    browser.message_accept([1])
    assert bench.broker.queue("q").message_depth == 3
    assert browser.consuming.records == {}


def test_a_subject_filter_on_a_queue_is_a_pattern_and_a_selector_looks_at_headers(bench):
    """LNK-14."""
    for subject, size in (("a.b", 1), ("a.c", 2), ("b", 1)):
        bench.send(1, headers={"qpid.subject": subject, "size": size})
    filters = {"subject": [TOPIC_FILTER, "a.*"], "selector": [SELECTOR_FILTER, "size = 2"]}
    session = bench.receiver(credit=5, filters=filters)
    assert [position for position, _ in bench.taken()] == [2]
    assert sorted(session.consuming.subscriptions["in"].granted.filters) == ["selector", "subject"]


def test_a_wrong_selector_refuses_the_link(bench):
    """LNK-08, LNK-14: the session lives."""
    session = bench.broker.link_session("r")
    with pytest.raises(Exception, match="Illegal selector") as refusal:
        session.link_attach("in", "receiver", "q", {"filters": {"s": [SELECTOR_FILTER, "a ="]}})
    condition = ("amqp:internal-error", "Illegal selector: '<END>': expected literal or identifier")
    assert condition_of(refusal.value) == condition
    assert session.is_attached
    assert bench.broker.queue("q").statistics().consumerCount == 0


def test_any_command_of_its_connection_wakes_a_sleeping_receiver():
    """LNK-15, MG-13: the accept alone wakes none on another connection."""
    bench = Bench({"qpid.group_header_key": "g", "qpid.shared_msg_group": 1})
    bench.attach_sender()
    bench.send(2, headers={"g": "a"})
    owner = bench.receiver("owner", credit=1)
    sleeper = bench.receiver("sleeper", credit=1)
    bench.taken()
    owner.message_accept([0])
    assert bench.taken() == []
    assert sleeper.has_waiting
    sleeper.link_dispatch()
    assert bench.taken() == [(2, 0)]
    assert bench.replays()


def test_on_an_exchange_a_selector_keeps_messages_off_the_queue():
    """LNK-14: nothing that does not match is ever on it."""
    bench = Bench()
    bench.receiver(address="amq.fanout", filters={"s": [SELECTOR_FILTER, "n = 1"]})
    bench.attach_sender("amq.fanout")
    for number in (1, 2):
        bench.send(1, headers={"n": number})
    assert bench.broker.queue("r_in").message_depth == 1
    assert bench.replays()


def test_an_exclusive_node_is_its_session_s_alone():
    """LNK-17: until the session ends."""
    bench = Bench()
    bench.attach_sender("own", capabilities=["create-on-demand"], properties={"exclusive": True})
    with pytest.raises(LinkException, match="Cannot consume from exclusive queue own"):
        bench.receiver(address="own")
    bench.sender.close()
    bench.receiver("later", address="own")
    assert bench.replays()


NAMES = [
    ("queue only", [], "queue"),
    ("both", [], "queue"),
    ("both", ["topic"], "exchange"),
    ("exchange only", [], "exchange"),
]


@pytest.mark.parametrize(("name", "capabilities", "kind"), NAMES)
def test_a_queue_comes_before_an_exchange_unless_topic_is_asked_for(name, capabilities, kind):
    """LNK-16."""
    bench = Bench(name="queue only")
    bench.broker.management.create("queue", "both")
    for exchange in ("both", "exchange only"):
        bench.broker.management.create("exchange", exchange)
    link = bench.attach_sender(name, capabilities=capabilities)
    assert (link.queue is not None, link.exchange is not None) == (kind == "queue", kind == "exchange")


@pytest.mark.parametrize("address", ["missing", "amq.topic/a", "q/x", ""])
def test_an_address_is_taken_literally(bench, address):
    """LNK-16: there is no subject in it."""
    with pytest.raises(LinkException) as refusal:
        bench.attach_sender(address, tag="other")
    assert condition_of(refusal.value) == ("amqp:not-found", f"Node not found: {address}")


def test_what_is_there_is_not_compared_and_shown_as_it_is():
    """LNK-17: the arguments of the link are those of no queue."""
    bench = Bench({"qpid.max_count": 7})
    asked = {"qpid.max_count": 9, "qpid.flow_stop_count": 3}
    link = bench.attach_sender(capabilities=["create-on-demand", "queue", "nonsense"], properties=asked)
    assert link.granted.capabilities == ["create-on-demand", "queue"]
    assert link.granted.properties == {"supported-dist-modes": "move", "qpid.max_count": "7"}


ANSWERED = [
    ("queue", {"auto-delete": True}, {"lifetime-policy": "amqp:delete-on-no-links:list"}),
    ("queue", {"auto-delete": False}, {}),
    ("queue", {"lifetime-policy": "", "durable": True}, {"durable": True}),
    (
        "queue",
        {"lifetime-policy": "amqp:delete-on-close:list", "exclusive": True},
        {"lifetime-policy": "amqp:delete-on-close:list", "exclusive": True},
    ),
    ("queue", {"alternate-exchange": "amq.fanout", "x": 1}, {"alternate-exchange": "amq.fanout"}),
    ("topic", {"auto-delete": True}, {"auto-delete": True, "exchange-type": "topic"}),
    ("topic", {"auto-delete": False, "durable": True}, {"auto-delete": False, "durable": True}),
    (
        "topic",
        {"exchange-type": "fanout", "alternate-exchange": "amq.topic"},
        {"exchange-type": "fanout", "alternate-exchange": "amq.topic"},
    ),
]


@pytest.mark.parametrize(("kind", "asked", "answered"), ANSWERED)
def test_the_answer_has_the_real_values_of_what_was_asked_for(bench, kind, asked, answered):
    """LNK-17: auto-delete is answered as a queue's lifetime; an exchange's type is always told."""
    capabilities = ["create-on-demand", kind]
    shown = bench.attach_sender(
        "made", tag="t", capabilities=capabilities, properties=asked
    ).granted.properties
    default = {"supported-dist-modes": "move"} if kind == "queue" else {"supported-dist-modes": "copy"}
    if kind == "topic":
        default["exchange-type"] = "topic"
    assert shown == default | answered


@pytest.mark.parametrize("properties", [{"durable": True}, {"auto-delete": False}])
def test_a_dynamic_node_that_is_to_stay_stays(bench, properties):
    """LNK-18."""
    bench.attach_sender(None, tag="t", dynamic=True, properties=properties)
    bench.sender.link_detach("t", "sender")
    assert "s_t" in bench.broker.queues.queues


LIFETIMES = [
    ("", "sender goes", True),
    ("amqp:delete-on-close:list", "sender goes", True),
    ("amqp:delete-on-no-links:list", "sender goes", False),
    ("amqp:delete-on-no-messages:list", "sender goes", False),
    ("amqp:delete-on-no-messages:list", "emptied first", True),
    ("amqp:delete-on-no-links-or-messages:list", "emptied first", False),
    ("amqp:delete-on-no-links-or-messages:list", "all go", False),
]


@pytest.mark.parametrize(("lifetime", "what", "is_gone"), LIFETIMES)
def test_when_a_dynamic_node_goes(lifetime, what, is_gone):
    """LNK-18: it has one message and one reader besides the link that made it, but for the first."""
    bench = Bench()
    properties = {"lifetime-policy": lifetime} if lifetime else {}
    link = bench.attach_sender(None, dynamic=True, properties=properties)
    assert link.granted.address == "s_out"
    bench.send(1)
    reader = bench.receiver(address="s_out", credit=1) if lifetime else None
    if what == "emptied first":
        reader.message_accept([0])
    bench.sender.link_detach("out", "sender")
    if what == "all go":
        reader.close()
    assert ("s_out" not in bench.broker.queues.queues) == is_gone
    assert bench.replays()


def test_two_clients_of_one_name_collide_on_an_exchange():
    """LNK-19: unless they share."""
    bench = Bench()
    bench.receiver("one", "amq.topic")
    twin = bench.broker.link_session("two", container="one")
    with pytest.raises(Exception, match="resource-locked: Queue one_in already has consumers"):
        twin.link_attach("in", "receiver", "amq.topic")
    for session in ("three", "four"):
        bench.receiver(session, "amq.topic", tag="shared", capabilities=["shared"])
    assert bench.broker.queue("shared").statistics().consumerCount == 2


def test_a_durable_subscription_outlives_its_connection_but_not_a_detach():
    """LNK-19."""
    bench = Bench()
    bench.receiver("r", "amq.fanout", durable=True, unsettled=True).close()
    assert "r_in" in bench.broker.queues.queues
    bench.receiver("r", "amq.fanout", durable=True, unsettled=True).link_detach("in", "receiver")
    assert "r_in" not in bench.broker.queues.queues
    bench.receiver("r", "amq.fanout").close()
    assert "r_in" not in bench.broker.queues.queues


def test_a_subscription_is_settled_as_it_is_sent_unless_asked_in_so_many_words():
    """LNK-19: on a queue it is the other way round."""
    bench = Bench()
    bench.receiver("mixed", "amq.fanout", credit=1)
    bench.receiver("asks", "amq.fanout", credit=1, unsettled=True)
    bench.attach_sender("amq.fanout")
    bench.send(1)
    assert [bench.broker.queue(name).message_depth for name in ("mixed_in", "asks_in")] == [0, 1]


PATTERNS = ["(a+)+b", "a{1,9}", "a|b", "[", "*" * 3, "a*?", "+a"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_could_take_for_ever_is_refused(pattern):
    """LNK-20: a client chooses it; what is not read is said."""
    with pytest.raises(ManagementError) as refusal:
        Broker().management.create("QueuePolicy", pattern)
    assert refusal.value.status == 7


PIECES = ["a", "b", ".", "[ab]", "[^a]", "[]a]", "a*", ".*", "b+", "a?", ".?", "[a-b]*"]


def test_patterns_of_policies_match_as_regular_expressions_do():
    """LNK-20: a thousand random ones, by Python's own; and one that those would be busy with for hours."""
    draw = random.Random(20)
    for _ in range(1_000):
        pattern = "".join(draw.choices(PIECES, k=draw.randint(1, 5)))
        name = "".join(draw.choices("ab]", k=draw.randint(0, 6)))
        assert _NodePolicy("q", pattern).matches(name) is bool(re.fullmatch(pattern, name)), (pattern, name)
    broker = Broker()
    broker.management.create("QueuePolicy", "a*" * 20 + "b")
    session = broker.link_session("s")
    with pytest.raises(LinkException):
        session.link_attach("in", "receiver", "a" * 255)


def test_a_policy_makes_what_matches_and_is_forgotten_when_deleted():
    """LNK-20."""
    bench = Bench({"qpid.flow_stop_count": 2}, kind="QueuePolicy", name="shop.*")
    assert bench.attach_sender("shop-a").queue.flow_limit.thresholds.stop_count == 2
    bench.sender.link_detach("out", "sender")
    assert "shop-a" not in bench.broker.queues.queues
    bench.broker.management.delete("QueuePolicy", "shop.*")
    with pytest.raises(LinkException):
        bench.attach_sender("shop-a")
    assert bench.replays()


def test_a_transaction_s_transfers_are_never_held():
    """LNK-21, and a session has one."""
    bench = Bench({"qpid.flow_stop_count": 1})
    bench.attach_sender()
    bench.sender.tx_select()
    with pytest.raises(LinkException) as refusal:
        bench.sender.tx_select()
    assert condition_of(refusal.value)[0] == "amqp:transaction:rollback"
    assert all(transfer.is_complete for transfer in bench.send(4, transactional=True))
    assert bench.broker.queue("q").message_depth == 0
    bench.sender.tx_commit()
    assert bench.broker.queue("q").message_depth == 4
    assert bench.broker.queue("q").statistics().flowStopped
    assert not bench.send(1)[0].is_complete
    assert bench.replays()


def test_a_commit_without_room_does_nothing():
    """LNK-23, LP-09."""
    bench = Bench({"qpid.max_count": 2, "qpid.flow_stop_count": 0})
    bench.attach_sender()
    bench.sender.tx_select()
    bench.send(3, transactional=True)
    with pytest.raises(Exception, match="internal-error: Transaction prepare failed"):
        bench.sender.tx_commit()
    assert bench.broker.queue("q").message_depth == 0
    assert bench.replays()


def test_a_browser_that_leaves_doubles_what_another_link_holds():
    """RF-51: available again, its group free, and yet held; accepting either removes it, for both."""
    bench = Bench({"qpid.group_header_key": "g", "qpid.shared_msg_group": 1})
    bench.attach_sender()
    bench.send(headers={"g": "a"})
    browser = bench.receiver("b", credit=5, copy=True)
    first = bench.receiver("first", credit=1)
    second = bench.receiver("second", credit=5)
    queue = bench.broker.queue("q")
    assert queue.groups.groups["a"].owner == "first::in"
    bench.got.clear()
    browser.link_detach("in", "receiver")
    assert (bench.taken(), queue.groups.groups["a"].owner) == ([(1, 1)], "second::in")
    assert queue.statistics().releases == 1
    first.message_accept([0])
    second.message_accept([0])
    assert (queue.message_depth, queue.statistics().msgTotalDequeues) == (0, 1)
    assert bench.replays()


def test_a_browser_that_has_settled_gives_nothing_back(bench):
    """RF-51: what is settled is off the link; and on AMQP 0-10 nothing of the kind happens."""
    bench.send(2)
    browser = bench.receiver("b", credit=5, copy=True)
    bench.receiver("r", credit=5)
    browser.message_accept([0, 1])
    old = bench.broker.session("old")
    old.message_subscribe("q", "browse", acquire_mode=1)
    old.message_flow("browse", 0, 5)
    old.message_flow("browse", 1, 10_000)
    browser.link_detach("in", "receiver")
    old.close()
    statistics = bench.broker.queue("q").statistics()
    assert (statistics.releases, statistics.acquires, statistics.messageCount) == (0, 2, 0)


@pytest.mark.parametrize(
    ("is_committed", "left", "outcomes"),
    [(True, (1, 1), [3]), (False, (3, 3), [])],
    ids=["commit", "rollback"],
)
def test_accepted_in_a_transaction_is_off_its_link(is_committed, left, outcomes):
    """RF-58: the link's end does not return it; the commit removes it and frees a held sender."""
    bench = Bench(
        {
            "qpid.flow_stop_count": 2,
            "qpid.flow_resume_count": 2,
            "qpid.group_header_key": "g",
            "qpid.shared_msg_group": 1,
        }
    )
    bench.attach_sender()
    bench.send(3, headers={"g": "a"})
    session, queue = bench.receiver("r", credit=2), bench.broker.queue("q")
    session.tx_select()
    session.message_accept([0, 1], transactional=True)
    session.link_detach("in", "receiver")
    assert (queue.message_depth, queue.message_count) == (3, 1)
    assert queue.groups.groups["a"].owner == "r::in"
    (session.tx_commit if is_committed else session.tx_rollback)()
    assert (queue.message_depth, queue.message_count) == left
    assert queue.groups.groups["a"].owner == ""
    assert bench.outcomes == outcomes
    bench.got.clear()
    bench.receiver("other", credit=5)
    assert bench.taken() == [(3, 0)] if is_committed else [(1, 1), (2, 1), (3, 0)]
    assert bench.replays()


def test_a_queue_s_trace_stays_on_a_message_that_goes_on():
    """RF-54: an alternate's queue gets the text as it is, and no empty one where there was none."""
    bench = Bench({"qpid.trace.id": "here", "alternate-exchange": "amq.fanout"})
    bench.broker.management.create("queue", "next", {})
    bench.broker.management.create("queue", "plain", {"alternate-exchange": "amq.fanout"})
    bench.broker.management.create("binding", "amq.fanout/next/", {})
    bench.attach_sender()
    bench.attach_sender("plain", tag="plain")
    bench.send(1)
    bench.send(1, tag="plain")
    bench.broker.management.delete("queue", "q")
    bench.broker.management.delete("queue", "plain")
    bench.receiver(address="next", credit=2)
    assert [record.message.annotations for record in bench.got] == [{"x-qpid.trace": "here"}, None]


def test_amqp_to_is_the_message_s_own_property():
    """RF-53: never the link's address; a trace keeps it, too."""
    bench = Bench()
    bench.attach_sender()
    bench.send(1)
    bench.send(1, to="elsewhere")
    filters = {"selector": (SELECTOR_FILTER, "amqp.to = 'elsewhere' OR JMSDestination = 'q'")}
    bench.receiver("r", credit=5, filters=filters)
    assert bench.taken() == [(2, 0)]
    assert bench.replays()


def test_a_connection_that_is_read_is_served_last():
    """RF-52: two releases in one write; the other connection, which waits as well, has both messages."""
    bench = Bench()
    bench.attach_sender()
    own = bench.receiver("own", credit=4)
    bench.send(2)
    bench.receiver("other", credit=4)
    bench.got.clear()
    with own.pipeline():
        own.message_release([0])
        own.message_release([1])
    assert [(record.message.position, record.queue.name) for record in bench.got] == [(1, "q"), (2, "q")]
    assert len(bench.broker.sessions["other"].consuming.records) == 2


def test_sessions_that_have_ended_are_forgotten_and_states_come_back(bench):
    """Clients of a server come and go; a restored broker continues as if nothing had happened."""
    bench.send(2)
    for number in range(20):
        bench.receiver(f"r{number}", credit=1).close()
    assert len(bench.broker.sessions) <= 3
    assert len(bench.broker.connections) <= 3
    twin = Broker.restore(bench.broker.snapshot())
    assert hash_snapshot(twin.snapshot()) == bench.broker.state_hash()
    for broker in (twin, bench.broker):
        session = broker.link_session("late")
        session.link_attach("in", "receiver", "q")
        session.message_flow("in", 0, 2)
    assert twin.state_hash() == bench.broker.state_hash()
