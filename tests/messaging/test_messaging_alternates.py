"""Alternate exchanges through the messaging API: the cases of ``alternate_exchange.py`` (EX-08 … EX-10).

What the suite declares by hand is made by addresses and management methods here.
"""

import pytest
from messaging_support import Bench, contents, drain, is_empty

from qflow.broker.errors import ManagementError
from qflow.messaging import REJECTED, Disposition, Receiver, SessionError

WORDS = ["One", "Two", "Three"]


def exchange(bench: Bench, name: str, kind: str, alternate: str = "") -> None:
    """Declare by address; a session of its own, since a refusal ends it."""
    more = f", alternate-exchange: '{alternate}'" if alternate else ""
    node = f"{{type: topic, x-declare: {{type: {kind}{more}}}}}"
    bench.new_session().sender(f"{name}; {{create: always, node: {node}}}")


def queue(name: str, alternate: str = "dlq", more: str = "") -> str:
    declare = f"{{alternate-exchange: {alternate}{more}}}"
    return f"{name}; {{create: always, node: {{type: queue, x-declare: {declare}}}}}"


def dead_letters(bench: Bench) -> Receiver:
    """An exchange "dlq", and a queue that gets all that comes to it."""
    exchange(bench, "dlq", "fanout")
    node = "{x-declare: {exclusive: True, auto-delete: True}, x-bindings: [{exchange: dlq}]}"
    return bench.receiver(f"deleted; {{create: always, node: {node}}}", capacity=10)


def fill(bench: Bench, address: str) -> None:
    sender = bench.sender(address)
    for word in WORDS:
        sender.send(word)


def delete(bench: Bench, kind: str, name: str) -> None:
    bench.broker.management.delete(kind, name)


def test_unroutable() -> None:
    """EX-08: what no binding matches goes to the alternate."""
    bench = Bench()
    exchange(bench, "secondary", "fanout")
    exchange(bench, "primary", "direct", "secondary")
    returned, processed = bench.receiver("secondary"), bench.receiver("primary/my-key")
    bench.sender("primary/my-key").send("Good")
    bench.sender("primary/unused-key").send("Bad")
    assert (contents(drain(processed)), contents(drain(returned))) == (["Good"], ["Bad"])
    assert bench.object("exchange", "primary").msgDrops == 1


def test_queue_delete() -> None:
    """QT-24: all messages, in order."""
    bench = Bench()
    letters = dead_letters(bench)
    fill(bench, queue("delete-me"))
    delete(bench, "queue", "delete-me")
    delete(bench, "exchange", "dlq")
    assert contents(drain(letters)) == WORDS


@pytest.mark.parametrize("user", ["queue", "exchange"])
def test_delete_while_used(user: str) -> None:
    """EX-03: 530 while it is an alternate; allowed when its user is gone."""
    bench = Bench()
    exchange(bench, "alternate", "fanout")
    if user == "queue":
        bench.sender(queue("user", "alternate"))
    else:
        exchange(bench, "user", "fanout", "alternate")
    link = bench.new_session().sender("alternate; {delete: always}")
    with pytest.raises(SessionError, match="in use as alternate-exchange") as raised:
        link.close()
    assert raised.value.code == 530
    with pytest.raises(ManagementError, match="in use as alternate-exchange"):
        delete(bench, "exchange", "alternate")
    delete(bench, user, "user")
    delete(bench, "exchange", "alternate")


@pytest.mark.parametrize(
    ("before", "after", "is_refused"), [("alt1", "alt2", True), ("", "alt1", True), ("alt1", "", False)]
)
def test_change_of_an_alternate(before: str, after: str, is_refused: bool) -> None:
    """EX-03: changing it or adding one is refused with 530; leaving it out means nothing."""
    bench = Bench()
    for name in ("alt1", "alt2"):
        exchange(bench, name, "direct")
    exchange(bench, "mine", "fanout", before)
    if is_refused:
        with pytest.raises(SessionError) as raised:
            exchange(bench, "mine", "fanout", after)
        assert raised.value.code == 530
    else:
        exchange(bench, "mine", "fanout", after)
    # Whose alternate an exchange still is cannot be deleted.
    if before:
        with pytest.raises(ManagementError, match="in use as alternate-exchange"):
            delete(bench, "exchange", before)
    for name in ("mine", "alt2", "alt1"):
        delete(bench, "exchange", name)


@pytest.mark.parametrize("exclusive", [True, False])
def test_queue_autodelete(exclusive: bool) -> None:
    """QT-24, CN-17: acquired messages too, and in their old order."""
    bench = Bench()
    letters = dead_letters(bench)
    session = bench.new_session()
    sender = session.sender(queue("my-queue", more=f", exclusive: {exclusive}, auto-delete: True"))
    for word in WORDS:
        sender.send(word)
    assert session.receiver("my-queue").fetch(1).content == "One"
    session.close()
    assert contents(drain(letters)) == WORDS


def test_queue_delete_loop() -> None:
    """EX-10: a queue bound to its own alternate gets none of it back."""
    bench = Bench()
    letters = dead_letters(bench)
    fill(bench, queue("delete-me").replace("type: queue", "type: queue, x-bindings: [{exchange: dlq}]"))
    delete(bench, "queue", "delete-me")
    delete(bench, "exchange", "dlq")
    assert contents(drain(letters)) == WORDS
    assert is_empty(letters)


@pytest.mark.parametrize("how", ["delete", "reject"])
def test_no_match(how: str) -> None:
    """EX-09: where the alternate has no match, its own alternate gets it."""
    bench = Bench()
    letters = dead_letters(bench)
    exchange(bench, "my-exchange", "direct", "dlq")
    fill(bench, queue("source", "my-exchange", ", auto-delete: True"))
    if how == "delete":
        delete(bench, "queue", "source")
    else:
        receiver = bench.receiver("source")
        for _ in WORDS:
            bench.session.acknowledge(receiver.fetch(1), Disposition(REJECTED))
        receiver.close()
    assert contents(drain(letters)) == WORDS
    delete(bench, "exchange", "my-exchange")
    delete(bench, "exchange", "dlq")


def test_acquired_messages_of_a_subscription() -> None:
    """QT-24 (new_api.py, QPID-3481): five, three of them fetched; closing the session sends all five."""
    bench = Bench()
    one, two = bench.new_session(), bench.new_session()
    sender = one.sender("amq.direct/key")
    main = one.receiver(
        "amq.direct/key;{link:{reliability:at-least-once,x-declare:{alternate-exchange:'amq.fanout'}}}"
    )
    alternate = two.receiver("amq.fanout", capacity=10)
    for _ in range(5):
        sender.send("DATA")
    drain(main, limit=3)
    assert alternate.available() == 0
    one.close()
    bench.sleep(1)
    assert alternate.available() == 5
    two.close()


def test_acquired_messages_of_two_consumers() -> None:
    """QT-24, CN-18 (new_api.py): deleting the queue sends each once; later closing adds none."""
    bench = Bench()
    sessions = [bench.new_session() for _ in range(4)]
    sender = sessions[0].sender(
        "test_acquired;{create:always,delete:always,node:{x-declare:{alternate-exchange:'amq.fanout'}}}"
    )
    first, second = sessions[1].receiver("test_acquired"), sessions[2].receiver("test_acquired")
    alternate = sessions[3].receiver("amq.fanout", capacity=10)
    for _ in range(5):
        sender.send("DATA")
    drain(first, limit=3)
    assert (alternate.available(), second.available()) == (0, 0)
    sessions[0].close()
    bench.sleep(1)
    assert alternate.available() == 5
    sessions[1].close()
    assert len(drain(alternate, limit=5)) == 5
    sessions[2].close()
    assert alternate.available() == 0
    sessions[3].close()


def test_next_receiver_of_three() -> None:
    """CN-19 (new_api.py)."""
    bench = Bench()
    for key in "abc":
        bench.receiver(f"amq.direct/{key}", capacity=10)
    for key in "abc":
        bench.sender(f"amq.direct/{key}").send(key)
    assert [bench.session.next_receiver(timeout=2).fetch().content for _ in range(3)] == ["a", "b", "c"]
    bench.session.acknowledge()
