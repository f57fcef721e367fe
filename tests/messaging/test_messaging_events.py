"""Alerts and other events as messages: the cases of ``threshold.py`` and ``qmf_events.py`` (QT-13, CF-12)."""

from messaging_support import Bench, address, drain, is_empty

from qflow.broker import Event
from qflow.messaging import Message, Receiver

UP, DOWN = "queueThresholdCrossedUpward", "queueThresholdCrossedDownward"
ALERTING = address("ttq", {"qpid.alert_count": 1})
OVERHEAD = 29
"""Bytes the broker counts for a message on "ttq" beside its text (DQ-08)."""


def subscribe(bench: Bench, kind: str, link: str = "") -> Receiver:
    source = f"qmf.default.topic/agent.ind.event.org_apache_qpid_broker.{kind}.#"
    return bench.receiver(source + (f"; {{link: {link}}}" if link else ""))


def values(event: Message, kind: str) -> dict[str, object]:
    assert event.content[0]["_schema_id"]["_class_name"] == kind
    assert event.content[0]["_schema_id"]["_package_name"] == "org.apache.qpid.broker"
    return event.content[0]["_values"]


def test_an_alert_is_one_event_up_and_one_down(bench: Bench) -> None:
    """QT-11 … QT-13, DQ-08: one event with the depths at that moment, and one on the way down."""
    up, down = (subscribe(bench, kind) for kind in (UP, DOWN))
    sender = bench.sender(address("ttq", {"qpid.alert_count": 5, "qpid.alert_count_down": 3}))
    receiver, size = bench.receiver("ttq"), len("msg-0") + OVERHEAD
    for number in range(5):
        sender.send(Message(f"msg-{number}"))
    assert values(up.fetch(timeout=1), UP) == {"qName": "ttq", "msgDepth": 5, "byteDepth": 5 * size}
    drain(receiver, 2)
    bench.session.acknowledge()
    assert values(down.fetch(timeout=1), DOWN) == {"qName": "ttq", "msgDepth": 3, "byteDepth": 3 * size}
    assert is_empty(up) and is_empty(down)


def test_alert_on_alert_queue(bench: Bench) -> None:
    """QT-13: the queue that alerts come to may raise one itself; that is all."""
    up = subscribe(bench, UP, "{x-declare:{arguments:{'qpid.alert_count':1}}}")
    bench.sender(ALERTING).send(Message("my-message"))
    names = [values(up.fetch(timeout=1), UP)["qName"] for _ in range(2)]
    assert names == ["ttq", up.queue]
    assert is_empty(up)


def test_alerts_that_cause_alerts_end(bench: Bench) -> None:
    """QT-13: a ring of one that alerts on itself raises one with each, without end; it is cut short."""
    seen: list[Event] = []
    bench.broker.observe(seen.append)
    ring = "{x-declare:{arguments:{'qpid.alert_count':1,'qpid.policy_type':ring,'qpid.max_count':1}}}"
    alerts = bench.receiver(f"qmf.default.topic/agent.ind.event.#; {{link: {ring}}}")
    published = bench.stat(alerts.queue).msgTotalEnqueues
    bench.sender(ALERTING).send("one")
    assert bench.stat(alerts.queue).msgDepth == 1
    assert 1 < bench.stat(alerts.queue).msgTotalEnqueues - published < 20


def test_other_events_and_filter_by_key(bench: Bench) -> None:
    """CF-12: exchanges, bindings and subscriptions; a receiver gets what its key asks for and no more."""
    everything = bench.receiver("qmf.default.topic/agent.ind.event.#")
    drain(everything)
    bench.receiver("news; {create: always, delete: always, node: {type: topic}}").close()
    kinds = [message.content[0]["_schema_id"]["_class_name"] for message in drain(everything)]
    assert " ".join(kinds) == (
        "exchangeDeclare queueDeclare bind bind subscribe"
        " unsubscribe unbind unbind queueDelete exchangeDelete"
    )


def test_an_observer_keeps_seeing_everything(bench: Bench) -> None:
    """Events reach an observer of the broker beside the messages, and after the last subscription."""
    seen: list[Event] = []
    bench.broker.observe(seen.append)
    up = subscribe(bench, UP)
    sender = bench.sender(ALERTING)
    sender.send("one")
    assert len(drain(up)) == 1
    assert [event.queue for event in seen if event.kind == UP] == ["ttq"]
    up.close()
    sender.send("two")
    assert bench.broker.observer is not None
    assert [event.kind for event in seen].count("enqueued") == 3


def test_nobody_listens_nothing_is_sent(bench: Bench) -> None:
    """Without a subscriber the agent sends nothing, so that nothing is unroutable."""
    bench.sender(ALERTING).send("one")
    assert bench.broker.statistics().discardsNoRoute == 0
    assert "qmf.agent" not in bench.broker.sessions
