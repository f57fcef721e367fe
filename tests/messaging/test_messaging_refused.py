"""Bad input through addresses: for each refused argument the exception, its code, its text (CF-05)."""

from collections.abc import Mapping

import pytest
from messaging_support import Bench, address, contents, drain

from qflow.messaging import (
    EncodeError,
    Message,
    MessagingError,
    NotFound,
    ReceiverError,
    ServerError,
    SessionError,
)

INVALID = "invalid conversion: "


def flow(unit: str = "count", **values: object) -> dict[str, object]:
    return {f"qpid.{name}_{unit}": value for name, value in values.items()}


GROUP = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}

REFUSED: list[tuple[Mapping[str, object], int, str]] = [
    # FC-11, CF-03: conversions
    *[
        ({key: value}, 542, INVALID)
        for key in ("qpid.flow_stop_count", "qpid.flow_resume_size", "qpid.max_count", "qpid.priorities")
        for value in ("abc", "", -1, 3.5, True, None)
    ],
    (flow(flow_stop=2**32), 542, INVALID),
    ({"qpid.max_count": 2**32}, 542, INVALID),
    ({"qpid.max_size": "3.5"}, 542, INVALID),
    ({"qpid.policy_type": 5}, 542, INVALID),
    ({"qpid.queue_msg_sequence": 5}, 542, INVALID),
    ({"qpid.browse-only": "maybe"}, 542, f"{INVALID}Cannot convert maybe to bool"),
    ({"qpid.auto_delete_timeout": -1}, 542, INVALID),
    ({"qpid.fairshare-x": 1, "qpid.priorities": 5}, 542, INVALID),
    # FC-05 … FC-07: thresholds
    (flow(max=100, flow_stop=5), 542, 'invalid-argument: Queue "q": qpid.flow_resume_count=70 must be less'),
    (flow(max=100, flow_stop=69), 542, 'invalid-argument: Queue "q": qpid.flow_resume_count=70'),
    (
        flow(max=100, flow_stop=101),
        542,
        'invalid-argument: Queue "q": qpid.flow_stop_count=101 must be less than',
    ),
    (flow("size", flow_stop=1000), 542, 'invalid-argument: Queue "q": qpid.flow_resume_size=73400320'),
    (flow(flow_stop=10, flow_resume=11), 542, 'invalid-argument: Queue "q": qpid.flow_resume_count=11'),
    (flow("size", flow_stop=209715200), 542, 'invalid-argument: Queue "q": qpid.flow_stop_size=209715200'),
    # MG-01: groups
    ({"qpid.group_header_key": "G"}, 542, "invalid-argument: Only shared groups are supported at present"),
    (GROUP | {"qpid.shared_msg_group": 0}, 542, "invalid-argument: Only shared groups are supported"),
    ({"qpid.shared_msg_group": 1}, 542, "invalid-argument: Can only specify qpid.shared_msg_group if"),
    ({"qpid.group_timestamp": 1}, 542, "invalid-argument: Can only specify qpid.group_timestamp if"),
    (
        GROUP | {"qpid.last_value_queue_key": "k"},
        542,
        "invalid-argument: Cannot specify qpid.last_value_queue_key",
    ),
    (GROUP | {"qpid.priorities": 5}, 542, "invalid-argument: Cannot specify qpid.priorities and"),
    (
        GROUP | {"qpid.paging": True},
        542,
        "invalid-argument: Cannot specify qpid.group_header_key and qpid.paging",
    ),
    (GROUP | {"qpid.shared_msg_group": "yes"}, 542, f"{INVALID}Cannot convert yes to bool"),
    # QT-06, QT-19, QT-01
    (
        {"qpid.fairshare": 5},
        542,
        "invalid-argument: Cannot specify fairshare settings when queue is not enabled",
    ),
    (
        {"qpid.priorities": 2, "qpid.fairshare-0": 1, "qpid.fairshare-1": 1, "qpid.fairshare-2": 1},
        542,
        "invalid-argument: Cannot have fairshare set for priority levels greater than",
    ),
    ({"qpid.priorities": 5, "qpid.last_value_queue_key": "k"}, 542, "invalid-argument: Cannot specify"),
    ({"qpid.max_pages_loaded": 5}, 542, "invalid-argument: Can only specify qpid.max_pages_loaded if"),
    ({"qpid.paging": True}, 540, "not-implemented: qpid.paging"),
]


@pytest.mark.parametrize(("arguments", "code", "text"), REFUSED, ids=[str(dict(a)) for a, _, _ in REFUSED])
def test_refused_declare(arguments: Mapping[str, object], code: int, text: str) -> None:
    """CF-05: nothing is created, the session is gone, the connection is not; a second try fares the same."""
    bench = Bench()
    for make in (bench.new_session().sender, bench.new_session().receiver):
        with pytest.raises(SessionError) as raised:
            make(address("q", arguments))
        assert type(raised.value) is SessionError
        assert raised.value.code == code
        assert str(raised.value).startswith(text), str(raised.value)
        assert not bench.exists("queue", "q")
    bench.sender(address("q")).send("fine")


@pytest.mark.parametrize(
    "arguments",
    [
        flow(max=100, flow_stop=100),
        flow(max="100", flow_stop="0"),
        flow("size", flow_stop=1000, flow_resume=0),
        flow(flow_stop=10),
        flow(flow_resume=10),
        {"qpid.policy_type": "ring", "qpid.flow_stop_count": 10, "qpid.flow_resume_count": 11},
        {"qpid.policy_type": "RING"},
        {"qpid.max-count": 5},
        {"qpid.group_header_key": 5, "qpid.shared_msg_group": "true"},
        {"qpid.alert_repeat_gap": -5},
        {"qpid.flow_stop_size": 209715200, "qpid.max_size": 0},
    ],
    ids=str,
)
def test_accepted_declare(arguments: Mapping[str, object]) -> None:
    """FC-03, FC-05, FC-07, CF-02, CF-03, LP-04: what looks wrong and is not."""
    bench = Bench()
    bench.sender(address("q", arguments)).send("fine")
    assert contents(drain(bench.receiver("q"))) == ["fine"]


@pytest.mark.parametrize(
    ("source", "kind", "code", "text"),
    [
        ("amq.x; {create: always, node: {type: topic}}", SessionError, 530, "not-allowed: Exchange names"),
        ("qpid.x; {create: always, node: {type: topic}}", SessionError, 530, "not-allowed: Exchange names"),
        (
            "x; {create: always, node: {type: topic, x-declare: {type: z}}}",
            NotFound,
            404,
            "not-found: Exchange type",
        ),
        (
            "x; {create: always, node: {x-declare: {alternate-exchange: z}}}",
            NotFound,
            404,
            "not-found: Exchange",
        ),
        (
            "amq.topic; {create: always, node: {type: topic, x-declare: {type: direct}}}",
            SessionError,
            530,
            "not-al",
        ),
        ("q; {node: {x-bindings: [{exchange: z}]}}", NotFound, 404, "not-found: Exchange not found: z"),
        (
            "q; {node: {x-bindings: [{queue: z, exchange: 'amq.topic'}]}}",
            NotFound,
            404,
            "not-found: Bind failed",
        ),
        (
            "q; {node: {x-bindings: [{key: z}]}}",
            SessionError,
            542,
            "invalid-argument: Bind not allowed for default",
        ),
        (
            "q; {node: {x-bindings: [{exchange: 'amq.match', key: z}]}}",
            ServerError,
            541,
            "internal-error: Invalid",
        ),
        (
            "mine; {mode: consume}",
            ReceiverError,
            405,
            "resource-locked: Cannot subscribe to exclusive queue mine",
        ),
        ("busy", ReceiverError, 405, "resource-locked: Queue busy has an exclusive consumer"),
        (
            "read; {link: {x-subscribe: {exclusive: True}}}",
            ReceiverError,
            405,
            "resource-locked: Queue read already",
        ),
        (
            "mine; {node: {x-bindings: [{exchange: 'amq.topic'}]}}",
            ReceiverError,
            405,
            "resource-locked: Cannot bind",
        ),
        (
            "mine; {create: always, node: {x-declare: {exclusive: True}}}",
            ReceiverError,
            405,
            "resource-locked",
        ),
        (
            "gone; {create: always, node: {x-declare: {passive: True}}}",
            NotFound,
            404,
            "not-found: Queue not found",
        ),
    ],
)
def test_refused_otherwise(source: str, kind: type[MessagingError], code: int, text: str) -> None:
    """EX-03, CN-02, CN-23, CF-04: the exception people catch it by, the code, the broker's words."""
    bench = Bench()
    bench.sender("q; {create: always}")
    bench.sender("mine; {create: always, node: {x-declare: {exclusive: True}}}")
    bench.receiver("busy; {create: always, link: {x-subscribe: {exclusive: True}}}")
    bench.receiver("read; {create: always}")
    with pytest.raises(kind) as raised:
        bench.new_session().receiver(source)
    assert type(raised.value) is kind
    assert raised.value.code == code
    assert str(raised.value).startswith(text), str(raised.value)


@pytest.mark.parametrize("address", [5, b"q", ["q"], -1])
@pytest.mark.parametrize("is_open", [True, False])
def test_an_address_that_is_no_text_is_refused_at_once(address, is_open):
    """CF-14: on a connection that is closed, too, not only when it opens again."""
    bench = Bench()
    if not is_open:
        bench.connection.detach()
    for attach in (bench.session.sender, bench.session.receiver):
        with pytest.raises(TypeError, match="an address is a string"):
            attach(address)
    bench.connection.attach()
    assert not bench.session.senders and not bench.session.receivers


@pytest.mark.parametrize(
    "properties", [{"k" * 256: 1}, {"a": "\ud800"}, {"a": 2**64}, {5: 1}, {"a": {1}}, [("a", 1)], 5]
)
def test_properties_that_cannot_be_encoded(properties):
    """DQ-07: EncodeError, and nothing is sent."""
    bench = Bench()
    sender = bench.session.sender("q; {create: always}")
    with pytest.raises(EncodeError):
        sender.send(Message("", properties=properties))
    assert bench.broker.queue("q").statistics().msgDepth == 0


def circle() -> dict[str, object]:
    entries: dict[str, object] = {}
    entries["itself"] = entries
    return entries


@pytest.mark.parametrize(
    "attributes",
    [
        {"reply_to": 5},
        {"reply_to": b"q"},
        {"reply_to": "x" * 256},
        {"reply_to": "q; {"},
        {"content": {"a": iter("a")}},
        {"content": circle()},
        {"properties": {"a": iter("a")}},
        {"properties": circle()},
    ],
)
def test_messages_that_cannot_be_encoded(attributes: dict[str, object]) -> None:
    """EncodeError, nothing is sent, and the session lives."""
    bench = Bench()
    sender = bench.sender("q; {create: always}")
    with pytest.raises(EncodeError):
        sender.send(Message(**attributes))  # type: ignore[arg-type]
    sender.send("x")
    assert bench.stat("q").msgDepth == 1
