"""The recorder in two lines: a connection of qpid.messaging, and a container of Proton."""

from collections import Counter

import pytest

pytest.importorskip("pyarrow")

from qflow.kit import RefusalError
from qflow.live.recorder import recorder
from qflow.logs import ClientLog, audit
from qflow.messaging import (
    RELEASED,
    Connection,
    Disposition,
    InsufficientCapacity,
    Message,
    TargetCapacityExceeded,
    Timeout,
    brokers,
)
from qflow.workload import Workload

STOPPED = "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 3, %s}}}}"


@pytest.fixture
def ticking():
    """A clock that moves by a millisecond whenever it is asked."""
    times = iter(range(0, 10**12, 1_000_000))
    return lambda: next(times)


@pytest.fixture
def begin(tmp_path, ticking, request):
    made = []

    def make(**options):
        connection = Connection.establish(f"recorder-{request.node.name}-{len(made)}")
        out = tmp_path / f"log{len(made)}.parquet"
        made.append(recorder(connection, out, clock=ticking, **options))
        return connection, made[-1]

    yield make
    for recording in made:
        recording.stop()


def rows(recording):
    recording.stop()
    return [(row.client, row.event, row.label) for row in ClientLog.load(recording.path).rows]


def test_what_a_session_sends_fetches_and_settles(begin):
    connection, recording = begin(name="shop")
    session = connection.session()
    sender = session.sender("orders; {create: always}")
    receiver = session.receiver("orders")
    sender.send(Message("one"))
    sender.send("two")
    first = receiver.fetch(timeout=0)
    second = receiver.fetch(timeout=0)
    session.acknowledge(first, Disposition(RELEASED))
    session.acknowledge(second)
    assert rows(recording) == [
        ("shop", "transfer", "shop-1"),
        ("shop", "complete", "shop-1"),
        ("shop", "transfer", "shop-2"),
        ("shop", "complete", "shop-2"),
        ("shop/orders", "deliver", "shop-1"),
        ("shop/orders", "deliver", "shop-2"),
        ("shop/orders", "release", "shop-1"),
        ("shop/orders", "accept", "shop-2"),
    ]


def test_a_full_window_is_a_block_and_what_was_not_sent_is_no_transfer(begin):
    connection, recording = begin(name="shop")
    session = connection.session()
    sender = session.sender(STOPPED % "'qpid.flow_resume_count': 2", capacity=2)
    sent = 0
    with pytest.raises(InsufficientCapacity):
        while True:
            sender.send("order", sync=False, timeout=0)
            sent += 1
    depth = brokers.get(connection.url).queue("orders").statistics().msgDepth
    counts = Counter(event for _, event, _ in rows(recording))
    assert counts["transfer"] == sent == depth
    assert counts["block"] == counts["unblock"] >= 1
    assert sent - counts["complete"] == 2
    workload = Workload.load(recording.path.with_name("log0.json"))
    assert workload.queues["orders"] == {"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 2}


def test_a_timeout_is_not_not_sent(begin):
    """The message is on the queue; its completion is withheld."""
    connection, recording = begin()
    sender = connection.session().sender(STOPPED % "'qpid.flow_resume_count': 2")
    for _ in range(3):
        sender.send("in")
    with pytest.raises(Timeout):
        sender.send("held", timeout=0)
    counts = Counter(event for _, event, _ in rows(recording))
    assert counts == {"transfer": 4, "complete": 3}


def test_the_limit_is_an_error_in_the_brokers_words(begin):
    """LP-01: the session dies of the transfer that does not fit."""
    connection, recording = begin()
    sender = connection.session().sender("small; {create: always, node: {x-declare: {arguments: "
                                         "{'qpid.max_count': 2, 'qpid.policy_type': reject}}}}")  # fmt: skip
    with pytest.raises(TargetCapacityExceeded):
        for _ in range(4):
            sender.send("in")
    last = rows(recording)[-1]
    assert last[1] == "error" and last[2].startswith("506 resource-limit-exceeded: ")


def test_groups_and_the_audit_of_what_was_recorded(begin):
    connection, recording = begin(group_header="team")
    session = connection.session()
    sender = session.sender("orders; {create: always}")
    receiver = session.receiver("orders", capacity=5)
    for number in range(20):
        sender.send(Message(f"order {number}", properties={"team": f"t{number % 3}"}))
    for _ in range(20):
        receiver.fetch(timeout=0)
        session.acknowledge()
    connection.close()
    recording.stop()
    log = ClientLog.load(recording.path)
    assert {row.group for row in log.rows if row.event == "deliver"} == {"t0", "t1", "t2"}
    workload = Workload.load(recording.path.with_name("log0.json"))
    assert audit(log, workload).findings == []


def test_after_stop_the_connection_works_and_nothing_more_is_recorded(begin):
    connection, recording = begin()
    connection.session("a").sender("orders; {create: always}").send("one")
    before = rows(recording)
    connection.session("b").sender("orders").send("two")
    recording.stop()
    assert rows(recording) == before
    assert brokers.get(connection.url).queue("orders").statistics().msgDepth == 2


def test_what_cannot_be_recorded_is_refused(tmp_path):
    with pytest.raises(RefusalError, match="Container of Proton; got str"):
        recorder("amqp://here", tmp_path / "log.parquet")
    (tmp_path / "there.parquet").write_text("mine")
    with pytest.raises(RefusalError, match="must not exist yet, or be empty"):
        recorder(Connection.establish("recorder-refused"), tmp_path / "there.parquet")


def test_a_container_of_proton_in_two_lines(tmp_path):
    pytest.importorskip("proton")
    from proton import Message as ProtonMessage
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    from qflow.live import serve

    class Both(MessagingHandler):
        """Sends ten messages and reads them again."""

        def __init__(self, url):
            super().__init__()
            self.url, self.sent, self.left = url, 0, 10

        def on_start(self, event):
            connection = event.container.connect(self.url, reconnect=False)
            self.sender = event.container.create_sender(connection, "orders")
            event.container.create_receiver(connection, "orders")

        def on_sendable(self, event):
            while self.sent < 10:
                self.sent += 1
                event.sender.send(ProtonMessage(body=f"number {self.sent}"))

        def on_message(self, event):
            self.left -= 1
            if not self.left:
                event.connection.close()

    with serve("orders") as broker:
        container = Container(Both(broker.url))
        with recorder(container, tmp_path / "log.parquet", name="shop"):
            container.run()
    log = ClientLog.load(tmp_path / "log.parquet")
    assert Counter(row.event for row in log.rows) >= Counter(transfer=10, complete=10, deliver=10)
    assert {row.client for row in log.rows} == {"shop", "shop/orders"}
    sent = [row.label for row in log.rows if row.event == "transfer"]
    assert [row.label for row in log.rows if row.event == "deliver"] == sent
