"""What is left out: each entry of the list, what asking for it gives, and that the list is whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from messaging_support import Bench, address, drain

from qflow.broker import Broker
from qflow.broker.errors import AmqpException, ManagementError, StartupError
from qflow.broker.options import NOT_MODELLED, read_options
from qflow.maintain.reference import _left_out_page
from qflow.messaging import Connection, ConnectionError, Empty, Message, brokers
from qflow.messaging.qmf import BROKER_NAME, call
from qflow.messaging.qmf_schema import PACKAGE
from qflow.teaching.rules import rule_table

Ask = Callable[[Broker], object]
LEFT_OUT = {what: (reason, answer) for what, reason, answer in rule_table("left-out")[1:]}


def invoke(method: str, identity: str = f"{PACKAGE}:broker:{BROKER_NAME}", **arguments: object) -> Ask:
    return lambda broker: call(broker, identity, method, arguments)


def create(type: str, name: str, **properties: object) -> Ask:
    return invoke("create", type=type, name=name, properties=properties)


REFUSED: list[tuple[str, Ask, int, str]] = [
    ("paging", lambda broker: broker.session("s").queue_declare("q", {"qpid.paging": True}), 540,
     "not-implemented: qpid.paging: "),
    ("dtx", lambda broker: broker.session("s").dtx_select(), 540, "not-implemented: dtx.select: "),
    ("federation", create("link", "l", host="b"), 7, "not-implemented: create link: "),
    ("federation", create("bridge", "b", link="l"), 7, "not-implemented: create bridge: "),
    ("federation", lambda broker: broker.management.delete("link", "l"), 7,
     "not-implemented: delete link: "),
    ("xml exchange", lambda broker: broker.session("s").exchange_declare("x", "xml"), 404,
     "not-found: Exchange type not implemented: xml"),
    ("xml exchange", create("exchange", "x", **{"exchange-type": "xml"}), 7, "Invalid exchange type: xml"),
    ("high availability", invoke("replicate", "org.apache.qpid.ha:habroker:ha-broker"), 2,
     "UnknownMethod: habroker has no 'replicate'"),
    ("shutdown and connect", invoke("shutdown"), 2, "UnknownMethod: broker has no 'shutdown'"),
    ("shutdown and connect", invoke("connect"), 2, "UnknownMethod: broker has no 'connect'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("what", "ask", "code", "text"), REFUSED, ids=[f"QT-19 {row[0]}, {row[3]}" for row in REFUSED]
)
def test_what_is_left_out_is_refused(what: str, ask: Ask, code: int, text: str) -> None:
    """QT-19, DQ-10, CM-17, CM-18: in the broker's words, or with the reason of the list; nothing is made."""
    broker = Broker()
    with pytest.raises((AmqpException, ManagementError)) as raised:
        ask(broker)
    error = raised.value
    assert str(error).startswith(text)
    assert (error.status if isinstance(error, ManagementError) else error.code) == code
    if text.startswith("not-implemented"):
        assert LEFT_OUT[what][0] in error.text
    assert not {"q", "x"} & {*broker.queues.queues, *broker.exchanges.exchanges}


def test_amqp_1_0_is_refused() -> None:
    """CM-18: this client speaks the older protocol, and says so in the real one's words."""
    with pytest.raises(ConnectionError, match="'amqp1.0' unsupported .must be amqp0-10"):
        Connection("somewhere", protocol="amqp1.0")


def test_a_cluster_is_refused() -> None:
    """CM-16: as qpidd refuses an option that it does not know."""
    with pytest.raises(StartupError, match="unrecognised option '--cluster-name'"):
        read_options(["--cluster-name=x"])


def test_durable_queues_and_messages_are_counted_without_a_store(bench: Bench) -> None:
    """CM-12, CF-09: durable queues and messages are taken, and counted."""
    durable = "{create: always, node: {durable: True}}"
    bench.sender(f"q; {durable}").send(Message("x", durable=True))
    queue = bench.stat("q")
    assert (queue.durable, queue.msgPersistEnqueues, queue.bytePersistEnqueues) == (True, 1, queue.byteDepth)


def test_access_control_is_reported() -> None:
    """The option is taken, as one that changes nothing here."""
    assert set(read_options(["--acl-file=rules", "--mgmt-qmf1=yes", "--auth=yes"])) <= NOT_MODELLED


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"username": "stranger", "password": "wrong"},
        {"username": "stranger", "sasl_mechanisms": "DIGEST-MD5"},
    ],
    ids=str,
)
def test_nothing_is_refused_by_itself(options: dict[str, str]) -> None:
    """Any URL has a broker, any user is let in, whatever a message says of its user."""
    brokers.reset()
    connection = Connection.establish("stranger:secret@never.heard.of:1", **options)
    session = connection.session()
    session.sender(address("q")).send(Message("x", user_id="another"))
    assert session.receiver("q").fetch(0).user_id == "another"


def test_the_older_protocol_of_management_is_not_answered(bench: Bench) -> None:
    """QMFv1: a binary request for the broker's identity; it is routed, as any message is."""
    answers = bench.receiver("amq.direct/answers")
    spy = bench.receiver("qpid.management/broker")
    header = b"AM2B" + bytes(4)
    bench.sender("qpid.management/broker").send(
        Message(header, reply_to="amq.direct/answers; {node: {type: topic}}")
    )
    assert [message.content for message in drain(spy)] == [header]
    with pytest.raises(Empty):
        answers.fetch(1)


def test_of_published_objects_there_are_only_events(bench: Bench) -> None:
    """CF-16: what is bound to all indications hears of a new queue, and not of what is in it."""
    heard = bench.receiver("qmf.default.topic/agent.ind.#")
    bench.sender(address("q")).send(Message("x"))
    bench.sleep(60)
    assert {message.properties["qmf.content"] for message in drain(heard)} == {"_event"}


def test_the_list_is_whole() -> None:
    """Each entry says why, and what asking for it gives; each is tested here."""
    others = (
        "acl, cluster, passwords, persistence, published objects, QMFv1, refused connections, wire protocol"
    )
    tested = {row[0] for row in REFUSED} | set(others.split(", "))
    assert set(LEFT_OUT) == tested
    page = _left_out_page()
    for what, (reason, answer) in LEFT_OUT.items():
        assert f"| {what} | " in page
        assert reason and answer.partition(":")[2]
