"""What passes on the wire, as rows of a client log: outcomes of AMQP 1.0, links that end, transactions."""

import random

import pytest

pytest.importorskip("proton")

from proton import Described, symbol, uint, ulong
from test_amqp_frames import HEADER, described, encoded, frame

from qflow.live.client_book import Labels, _infer_workload, report
from qflow.live.wire_log import BROKER, CLIENT, WireLog
from qflow.workload import Workload

OUTCOMES = {"accepted": 0x24, "rejected": 0x25, "released": 0x26, "modified": 0x27}


def message(body, subject=None, group=None, to=None):
    sections = encoded(described(0x70, True))
    if subject or to:
        sections += encoded(described(0x73, None, None, to, subject))
    if group:
        sections += encoded(Described(ulong(0x74), {"team": group}))
    return sections + encoded(Described(ulong(0x77), body))


class Wire:
    """Two peers that say what they are asked to; each instant is a microsecond later."""

    def __init__(self, container="p", **links):
        self.log, self.time, self.numbers, self.said = WireLog(), 0, 0, []
        self.begin(container, **links)

    def begin(self, container, sends="", reads=""):
        """Begin a connection, with a link to send, then one to read, each if its address is given."""
        self.numbers += 1
        self.log.open_connection(self.numbers, "127.0.0.1:1")
        self.ids = {CLIENT: 0, BROKER: 0}
        for side in (CLIENT, BROKER):
            self.log.read(self.numbers, side, HEADER)
            self.frame(side, 0x10, container if side == CLIENT else "broker")
            self.frame(side, 0x11, None if side == CLIENT else 0, uint(0), uint(1000), uint(1000))
        given = [link for link in ((sends, False), (reads, True)) if link[0]]
        for handle, (address, is_receiver) in enumerate(given):
            self.attach(handle, address, is_receiver)

    def frame(self, side, code, *fields, payload=b""):
        self.time += 1
        body = encoded(described(code, *fields)) + payload
        data = frame(body)
        self.said.append((side, data))
        self.log.book.now = self.time
        self.log.read(self.numbers, side, data)

    def attach(self, handle, address, is_receiver=False, mode=None, target=None, dynamic=None):
        for side in (CLIENT, BROKER):
            role = is_receiver == (side == CLIENT)
            source = described(0x28, address, None, None, None, None, None, mode)
            named = "reply-1" if dynamic and side == BROKER else None
            if dynamic:
                source = described(0x28, named, None, None, None, True)
            if target is None:
                target = described(0x29, address)
            nodes = (source, described(0x29)) if is_receiver else (described(0x28), target)
            self.frame(side, 0x12, f"link-{handle}", uint(handle), role, None, None, *nodes)

    def transfer(self, side, handle, payload, settled=False, state=None, more=False, first=True):
        number = self.ids[side]
        self.ids[side] += first
        identity = uint(number) if first else None
        fields = (uint(handle), identity, b"t", uint(0), settled, more, None, state)
        self.frame(side, 0x14, *fields, payload=payload)
        return number

    def settle(self, side, first, last, outcome, is_settled=True, role=True):
        state = described(OUTCOMES[outcome]) if isinstance(outcome, str) else outcome
        self.frame(side, 0x15, role, uint(first), uint(last), is_settled, state)

    def rows(self):
        rows = [(row[1], row[2], row[3], row[4]) for row in self.log.book.rows]
        self.log.book.rows.clear()
        return rows


@pytest.mark.parametrize(
    ("outcome", "event"),
    [("accepted", "complete"), ("released", "refused"), ("rejected", "refused"), ("modified", "refused")],
)
def test_the_brokers_outcome_of_a_transfer(outcome, event):
    """Amqp10 a3 and a7: accepted is a completion; released, at the limit, is not."""
    wire = Wire(sends="orders")
    wire.transfer(CLIENT, 0, message("one"))
    wire.transfer(CLIENT, 0, message("two"))
    wire.settle(BROKER, 0, 1, outcome)
    assert wire.rows() == [
        ("p", "transfer", "orders", "p-1"),
        ("p", "transfer", "orders", "p-2"),
        ("p", event, "", "p-1"),
        ("p", event, "", "p-2"),
    ]
    assert wire.log.book.clients["p"].most_unsettled == 2


@pytest.mark.parametrize(
    ("outcome", "event"),
    [
        ("accepted", "accept"),
        ("released", "release"),
        ("modified", "release"),
        ("rejected", "reject"),
        (None, "accept"),
    ],
)
def test_the_clients_outcome_of_a_delivery(outcome, event):
    """Amqp10 b2: what is settled without an outcome is dequeued."""
    wire = Wire("c", reads="orders")
    wire.transfer(BROKER, 0, message("one"))
    wire.settle(CLIENT, 0, 0, outcome)
    assert wire.rows()[1:] == [("c", event, "orders", "unseen-1")]


def test_a_settled_delivery_is_accepted_and_a_settled_transfer_never_complete():
    """Amqp10 a5 and b4."""
    wire = Wire(sends="orders", reads="orders")
    wire.transfer(CLIENT, 0, message("one"), settled=True)
    wire.transfer(BROKER, 1, message("one"), settled=True)
    events = [(client, event, label) for client, event, _, label in wire.rows()]
    assert sorted(events[:1]) == [("p/orders", "transfer", "p/orders-1")]
    assert events[1:] == [("p", "deliver", "p/orders-1"), ("p", "accept", "p/orders-1")]
    workload = _infer_workload(wire.log.book, "w")
    assert workload["inferred"]["producers.p/orders.capacity"].startswith("not seen")


def test_deliveries_are_of_the_oldest_transfer_with_the_same_bytes_and_a_released_one_comes_again():
    wire = Wire(sends="orders")
    for body in ("same", "same", "other", "same"):
        wire.transfer(CLIENT, 0, message(body))
    wire.rows()
    wire.attach(1, "orders", is_receiver=True)
    labels = []
    for body in ("same", "other", "same"):
        number = wire.transfer(BROKER, 1, message(body))
        labels.append(wire.rows()[-1][3])
    wire.settle(CLIENT, 0, 0, "released")
    assert labels == ["p-1", "p-3", "p-2"] and number == 2
    wire.rows()
    wire.transfer(BROKER, 1, message("same"))
    wire.transfer(BROKER, 1, message("same"))
    assert [row[3] for row in wire.rows()] == ["p-1", "p-4"]
    assert wire.log.book.labels.alike == 3


def test_a_message_in_pieces_is_one_transfer_of_its_whole_size():
    wire = Wire(sends="orders")
    whole = message("x" * 1000)
    wire.transfer(CLIENT, 0, whole[:100], more=True)
    wire.transfer(CLIENT, 0, whole[100:600], more=True, first=False)
    wire.transfer(CLIENT, 0, whole[600:], first=False)
    assert [(row[2], row[5]) for row in wire.log.book.rows] == [("transfer", len(whole))]


def test_a_delivery_that_crosses_the_end_of_its_link_is_still_the_brokers():
    wire = Wire(sends="orders", reads="orders")
    wire.transfer(CLIENT, 0, message("one"))
    wire.rows()
    wire.frame(CLIENT, 0x16, uint(1), True)
    wire.transfer(BROKER, 1, message("one"))
    assert wire.rows() == []
    wire.begin("c", reads="orders")
    wire.transfer(BROKER, 0, message("one"))
    assert wire.rows() == [("c", "deliver", "orders", "p/orders-1")]


def test_a_consumer_that_leaves_with_nothing_is_gone_before_the_next_message_comes():
    wire = Wire("c", reads="orders")
    wire.frame(CLIENT, 0x18)
    assert wire.rows() == []
    wire.begin("p", sends="orders")
    wire.transfer(CLIENT, 0, message("one"))
    assert [row[:2] for row in wire.rows()] == [("c", "error"), ("p", "transfer")]


def test_the_brokers_error_is_in_the_log_in_its_own_words():
    """Amqp10 a9."""
    wire = Wire(sends="orders")
    wire.transfer(CLIENT, 0, message("one"))
    error = described(0x1D, symbol("amqp:resource-deleted"), " Queue orders has been deleted")
    wire.frame(BROKER, 0x16, uint(0), True, error)
    assert wire.rows()[1:] == [("p", "error", "", "amqp:resource-deleted:  Queue orders has been deleted")]


def test_deliveries_settled_without_a_state_are_neither_complete_nor_refused():
    """Amqp10 a11: a sender that closes gets neither yes nor no."""
    wire = Wire(sends="orders")
    wire.transfer(CLIENT, 0, message("one"))
    wire.settle(BROKER, 0, 0, None)
    assert len(wire.rows()) == 1
    assert any("neither yes nor no" in words for words in wire.log.book.findings)


@pytest.mark.parametrize(
    ("fails", "events"), [(False, ["transfer", "complete", "accept"]), (True, ["release"])]
)
def test_a_transaction_is_in_the_log_when_it_ends(fails, events):
    """Amqp10 d1: sends appear at the commit, and are accepted at once; an accept counts at the commit."""
    wire = Wire(sends="orders", reads="orders")
    wire.attach(2, None, target=described(0x30))
    wire.transfer(BROKER, 1, message("old"))
    wire.rows()
    state = described(0x34, b"tx-1")
    wire.transfer(CLIENT, 0, message("new"), state=state)
    wire.settle(BROKER, 0, 0, "accepted")
    wire.settle(CLIENT, 0, 0, described(0x34, b"tx-1", described(0x24)))
    assert wire.rows() == []
    # Described by its symbol, behind a header, as some clients do.
    command = Described(symbol("amqp:discharge:list"), [b"tx-1", fails])
    discharge = encoded(described(0x70, True)) + encoded(Described(ulong(0x77), command))
    number = wire.transfer(CLIENT, 2, discharge)
    assert wire.rows() == []
    wire.settle(BROKER, number, number, "accepted")
    assert [row[1] for row in wire.rows()] == events


def test_browsing_and_management_are_not_in_the_log():
    wire = Wire()
    wire.attach(0, "orders", is_receiver=True, mode=symbol("copy"))
    wire.attach(1, None, is_receiver=True, dynamic=True)
    wire.attach(2, "qmf.default.direct")
    wire.transfer(BROKER, 0, message("browsed"))
    wire.transfer(CLIENT, 2, message("request"))
    wire.transfer(BROKER, 1, message("answer"))
    assert wire.rows() == [] and wire.log.book.clients == {}
    assert "'link-0' only browses 'orders': its reads are not in the log" in wire.log.book.findings


def test_exchanges_have_a_client_for_each_subject_and_subscriptions_their_queues():
    """Amqp10 c4: queue CONTAINER_LINK, bound with the default key of a topic exchange."""
    wire = Wire(sends="amq.topic", reads="amq.topic")
    wire.transfer(CLIENT, 0, message("one", subject="eu"))
    wire.transfer(CLIENT, 0, message("two", subject="us"))
    wire.transfer(BROKER, 1, message("two", subject="us"))
    rows = wire.rows()
    assert [row[1:3] for row in rows] == [("transfer", "eu"), ("transfer", "us"), ("deliver", "p_link-1")]
    assert rows[2][3] == rows[1][3]
    workload = _infer_workload(wire.log.book, "w")
    assert workload["binds"] == [["amq.topic", "p_link-1", "#"]]
    addresses = [producer["to"] for producer in workload["producers"]]
    assert addresses == [["amq.topic", "eu"], ["amq.topic", "us"]]


def test_a_link_without_an_address_sends_to_each_messages_own():
    """Amqp10 a13: the anonymous relay."""
    wire = Wire()
    wire.attach(0, None, target=described(0x29))
    wire.transfer(CLIENT, 0, message("one", to="a"))
    wire.transfer(CLIENT, 0, message("two", to="b"))
    assert wire.rows() == [("p", "transfer", "a", "p-1"), ("p/b", "transfer", "b", "p/b-1")]


def test_the_group_is_the_application_property_of_the_queues_group_header():
    """Amqp10 b8: the header is looked up in the application properties."""
    wire = Wire()
    properties = {symbol("qpid.group_header_key"): "team", symbol("qpid.flow_stop_count"): 9}
    target = described(0x29, "orders", None, None, None, None, properties, symbol("create-on-demand"))
    wire.attach(0, "orders", target=target)
    wire.transfer(CLIENT, 0, message("one", group="blue"))
    assert wire.log.book.rows[0][6] == "blue"
    workload = _infer_workload(wire.log.book, "w")
    assert workload["queues"]["orders"] == {"qpid.group_header_key": "team", "qpid.flow_stop_count": 9}
    assert "queues.orders" not in workload["inferred"]


@pytest.mark.parametrize(
    ("product", "answers", "is_qpid_cpp", "unknown"),
    [
        ("qpid-cpp", True, True, ""),
        ("qpid-cpp", False, True, "its declaration is unknown"),
        ("", False, None, "its declaration is unknown"),
        ("RabbitMQ", False, False, "the broker is RabbitMQ 1.40.0, whose brake is not that of Qpid's C++"),
    ],
)
def test_whether_thresholds_are_known_and_which_broker_it_was(product, answers, is_qpid_cpp, unknown):
    wire = Wire()
    named = {symbol("product"): product, symbol("version"): "1.40.0"} if product else None
    wire.frame(BROKER, 0x10, "broker", None, None, None, None, None, None, None, None, named)
    wire.attach(0, "orders")
    wire.transfer(CLIENT, 0, message("one"))
    book = wire.log.book
    if answers:
        book.note_statistics({"exchanges": []})
        book.note_statistics({"queue": "orders", "values": [0, 0, False, 0, 0, 0, 0], "arguments": {}})
    assert report(book)["broker"] == {
        "product": f"{product} 1.40.0".strip() if product else "",
        "is_qpid_cpp": is_qpid_cpp,
    }
    assert book.unknown_thresholds("orders").startswith(unknown) and bool(unknown) == bool(
        report(book)["thresholds_unknown"]
    )
    stated = _infer_workload(book, "w")["inferred"].get("queues.orders", "")
    assert stated.startswith(f"not seen: its thresholds are unknown: {unknown}" if unknown else "")
    assert bool(stated) == bool(unknown)


def test_windows_and_service_times_are_marked_as_inferred_and_the_workload_can_be_read():
    wire = Wire(sends="orders", reads="orders")
    wire.frame(CLIENT, 0x13, uint(0), uint(9), uint(0), uint(9), uint(1), uint(0), uint(20))
    for body in "abc":
        wire.transfer(CLIENT, 0, message(body))
        wire.transfer(BROKER, 1, message(body))
    wire.settle(CLIENT, 0, 2, "accepted")
    stated = _infer_workload(wire.log.book, "w")
    workload = Workload.from_json(stated)
    assert workload.producers[0].capacity == 3 and workload.consumers[0].prefetch == 20
    named = {key.rpartition(".")[2] for key in stated["inferred"]}
    assert named >= {"capacity", "prefetch", "service", "rate"}


def test_names_of_containers_are_kept_and_uuids_become_numbers():
    wire = Wire("0d7c3fb0-38c5-49cb-a4fe-b23bb5ce75e1", reads="orders")
    wire.begin("broker", reads="orders")
    wire.begin("worker", reads="orders")
    wire.attach(1, "orders", is_receiver=True)
    wire.attach(2, "orders", is_receiver=True)
    names = ["client-1", "broker/orders", "worker", "worker/orders", "worker/orders.2"]
    assert list(wire.log.book.clients) == names


def test_what_makes_no_sense_ends_only_the_reading_of_its_connection():
    wire = Wire(sends="orders")
    wire.transfer(CLIENT, 7, message("one"))
    assert "transfer on handle 7, on which no link is attached" in " ".join(wire.log.book.findings)
    wire.transfer(CLIENT, 0, message("one"))
    assert wire.rows() == []
    wire.begin("q", sends="orders")
    wire.transfer(CLIENT, 0, message("one"))
    assert wire.rows() == [("q", "transfer", "orders", "q-1")]


def test_a_message_that_comes_from_another_address_has_its_label():
    """A subscription of another broker, or an alternate: the bare message is the same."""
    wire = Wire(sends="topic", reads="topic/subscriptions/a")
    wire.attach(2, "topic/subscriptions/b", is_receiver=True)
    for _ in range(2):
        wire.transfer(CLIENT, 0, message("same"))
    for handle in (1, 2, 1):
        wire.transfer(BROKER, handle, message("same"))
    labels = [(row[0], row[3]) for row in wire.rows() if row[1] == "deliver"]
    assert [label for _, label in labels] == ["p/topic-1", "p/topic-1", "p/topic-2"]


def test_what_is_remembered_of_messages_that_are_all_alike_is_bounded(monkeypatch):
    monkeypatch.setattr("qflow.live.client_book.MOST_UNMATCHED", 100)
    labels = Labels()
    for number in range(10_000):
        labels.add(f"p-{number}", "amq.fanout", (number % 2, 9), 9, is_exchange=True)
    assert labels._kept <= 101
    assert sum(len(sent) for each in labels._passed.values() for sent, _ in each.values()) == labels._kept


def test_how_long_a_sender_was_without_credit_is_counted():
    """Brokers that brake by credit (Artemis, RabbitMQ); the delivery count may begin anywhere."""
    wire = Wire(sends="orders")
    windows = (uint(0), uint(9), uint(0), uint(9))
    wire.frame(BROKER, 0x13, *windows, uint(0), uint(0), uint(2))
    for _ in range(2):
        wire.transfer(CLIENT, 0, message("one"))
    wire.time += 500
    wire.frame(BROKER, 0x13, *windows, uint(0), uint(2), uint(2))
    wire.transfer(CLIENT, 0, message("one"))
    client = wire.log.book.clients["p"]
    assert (client.times_without_credit, client.without_credit) == (1, 501)


def dialogue(queue):
    """Return side and frame of what is said where a client sends, receives, and settles in a transaction."""
    wire = Wire(sends=queue, reads=queue)
    wire.attach(2, None, target=described(0x30))
    for number in range(3):
        wire.transfer(CLIENT, 0, message(f"order {number}", subject="eu", group="blue"))
        wire.transfer(BROKER, 1, message(f"order {number}"))
    wire.settle(BROKER, 0, 2, "accepted")
    wire.settle(CLIENT, 0, 2, described(0x34, b"tx-1", described(0x24)))
    wire.frame(CLIENT, 0x16, uint(0), True)
    return wire.said


def test_mutated_dialogues_end_no_reader_and_leave_other_connections_alone():
    """2,000 dialogues with changed, lost and repeated bytes; findings say what could not be read."""
    said, chance, log = dialogue("orders"), random.Random(10), WireLog("team")
    for number in range(2_000):
        log.book.now = number
        log.open_connection(number, "127.0.0.1:1")
        for side in (CLIENT, BROKER):
            log.read(number, side, HEADER)
        for side, data in said:
            mutated = bytearray(data)
            if chance.random() < 0.2:
                mutated[chance.randrange(4, len(mutated))] = chance.randrange(256)
            if chance.random() < 0.02:
                del mutated[chance.randrange(len(mutated)) :]
            for _ in range(1 + (chance.random() < 0.05)):
                log.read(number, side, bytes(mutated))
        log.close_connection(number, "")
        assert _infer_workload(log.book, "w")["name"] == "w" if number % 200 == 0 else True
    assert log.connections == {} and any("are not read" in words for words in log.book.findings)
    times = [row[0] for row in log.book.rows]
    assert times == sorted(times) and all(row[1] and row[5] >= 0 for row in log.book.rows)
