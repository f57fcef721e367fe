"""Brakes: the same queue, said in three ways; and what is in front of them."""

import pytest

pytest.importorskip("proton")

from qflow.kit import RefusalError
from qflow.live import serve
from qflow.live.brakes import BRAKES

QUEUE = "orders --flow-stop-count=10 --flow-resume-count=5 --max-queue-count=30 --limit-policy=reject"


def send(out, client, count):
    """Send as long as there is credit, at most so many; return how many were sent."""
    sent = 0
    while sent < count and out.credit:
        out.send(f"message {sent}")
        sent += 1
        client.round_trip()
    return sent


@pytest.mark.parametrize(
    ("brake", "sent", "depth", "outcomes"),
    [
        ("credit", 11, 11, {"accepted": 11}),
        ("reject", 40, 11, {"accepted": 11, "rejected": 29}),
    ],
)
def test_a_stopped_queue_says_so_by_credit_or_rejection(brake, sent, depth, outcomes):
    with serve(QUEUE, brake=brake) as broker:
        shop, reader = broker.client("shop"), broker.client("reader")
        out = shop.sender("orders")
        assert send(out, shop, 40) == sent
        told = out.outcomes()
        assert {word: told.count(word) for word in set(told)} == outcomes
        orders = broker.broker.queue("orders")
        assert (orders.message_depth, orders.statistics().flowStopped) == (depth, True)
        # FC-16: above resume nothing changes, below it all may go on.
        inbox = reader.receiver("orders", credit=depth)
        inbox.accept(depth - 5)
        shop.round_trip()
        assert orders.statistics().flowStopped and out.credit == (0 if brake == "credit" else 500)
        inbox.accept(1)
        shop.round_trip()
        assert not orders.statistics().flowStopped
        assert out.credit == (7 if brake == "credit" else 500)
        assert out.count() == 0
        shop.close(), reader.close()


def test_a_limit_releases_or_rejects():
    for brake, word in (("credit", "released"), ("reject", "rejected")):
        with serve(f"{QUEUE} --flow-stop-count=0", brake=brake) as broker:
            shop = broker.client("shop")
            out = shop.sender("orders")
            assert send(out, shop, 32) == 32
            assert out.outcomes()[29:] == ["accepted", word, word]
            seen = broker.snapshot()["outcomes"]
            assert (seen["accepted"], seen[word]) == (30, 2)
            shop.close()


def test_another_sender_that_waits_for_credit_gets_it_when_there_is_room():
    with serve(QUEUE, brake="credit") as broker:
        first, second, reader = (broker.client(name) for name in ("first", "second", "reader"))
        out = first.sender("orders")
        send(out, first, 20)
        late = second.sender("orders")
        second.round_trip()
        assert (out.credit, late.credit) == (0, 0)
        inbox = reader.receiver("orders", credit=11)
        inbox.accept(11)
        first.round_trip(), second.round_trip()
        assert out.credit == late.credit == 11
        for client in (first, second, reader):
            client.close()


def test_an_exchange_is_braked_by_silence_whatever_the_brake():
    with serve(QUEUE, brake="reject") as broker:
        broker.broker.management.create("binding", "amq.fanout/orders/", {})
        shop = broker.client("shop")
        out = shop.sender("amq.fanout")
        send(out, shop, 12)
        assert out.outcomes()[9:] == ["accepted", "no outcome yet", "no outcome yet"]
        shop.close()


def test_an_unknown_brake_is_refused():
    assert BRAKES == ("silence", "credit", "reject")
    with pytest.raises(RefusalError, match="brake must be one of silence, credit, reject, got 'hope'"):
        serve("orders", brake="hope")


@pytest.mark.parametrize(("brake", "sent"), [("credit", 11), ("reject", 15)])
def test_a_deleted_queue_gives_no_credit_and_rejects_nothing(brake, sent):
    # LNK-09: a sender is told of the deletion by its next transfer.
    with serve(QUEUE, brake=brake) as broker:
        shop = broker.client("shop")
        out = shop.sender("orders")
        assert send(out, shop, 15) == sent
        rejected = out.count("rejected")
        with broker.lock:
            broker.broker.management.delete("queue", "orders")
        broker.server.wake()
        shop.round_trip()
        if brake == "credit":
            assert out.credit == 0
        else:
            out.send("one more")
            shop.round_trip()
            # Its link is closed, and what it sent has no outcome.
            assert [link for peer in broker.server.peers() for link in peer.links] == []
        assert out.count("rejected") == rejected
        shop.close()
