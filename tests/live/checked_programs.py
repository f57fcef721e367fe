"""Programs of many kinds, which are checked while a proxy counts: how they send, settle, pause and fail."""

import os
import socket
import sys
import threading
import time
from collections import deque

from proton import Delivery, Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import AtMostOnce, Container, SenderOption
from proton.utils import BlockingConnection, SendException

URL, QUEUE = os.environ.get("AMQP_URL", ""), os.environ.get("AMQP_QUEUE", "")
COUNT = int(os.environ.get("AMQP_MESSAGES", "0"))


def body(number):
    return f"order {number}"


def blocking(timeout=None):
    connection = BlockingConnection(URL, timeout=timeout)
    return connection, connection.create_sender(QUEUE)


def one_by_one():
    connection, sender = blocking()
    for number in range(COUNT):
        sender.send(Message(body=body(number)))
    connection.close()


def one_by_one_patient():
    """Send again what is refused, after a pause."""
    connection, sender = blocking()
    for number in range(COUNT):
        while True:
            try:
                sender.send(Message(body=body(number)))
                break
            except SendException:
                time.sleep(0.2)
    connection.close()


def gives_up():
    connection, sender = blocking(timeout=1.5)
    try:
        for number in range(COUNT):
            sender.send(Message(body=body(number)))
    except Exception as error:
        print("gave up:", type(error).__name__, flush=True)
    os._exit(0)


def a_connection_each():
    for number in range(COUNT):
        connection, sender = blocking()
        sender.send(Message(body=body(number)))
        connection.close()


def a_link_each():
    connection = BlockingConnection(URL, timeout=None)
    for number in range(COUNT):
        connection.create_sender(QUEUE, name=f"link {number}").send(Message(body=body(number)))
    connection.close()


def two_connections():
    def work(first):
        try:
            connection, sender = blocking()
            for number in range(first, COUNT, 2):
                sender.send(Message(body=body(number)))
            connection.close()
        except Exception as error:
            os.write(1, f"a thread ends: {type(error).__name__}\n".encode())

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Dynamic(SenderOption):
    def apply(self, sender):
        sender.target.dynamic = True


def two_queues():
    connection, sender = blocking()
    audit = connection.create_sender(None, options=Dynamic())
    for number in range(COUNT):
        audit.send(Message(body=f"audit {number}"))
        sender.send(Message(body=body(number)))
    connection.close()


def starts_late():
    time.sleep(3)
    one_by_one()


def works_late():
    connection, sender = blocking()
    time.sleep(2)
    for number in range(COUNT):
        sender.send(Message(body=body(number)))
    connection.close()


def batches():
    """Send 20, then wait for all 20 outcomes."""

    class Batches(Windowed):
        def may_send(self):
            return not self.unsettled or self.is_filling

        def fill(self):
            if not self.unsettled:
                self.is_filling, begun = True, self.number
                while self.number < COUNT and self.link.credit and self.number < begun + 20:
                    self.send(self.number)
                    self.number += 1
                self.is_filling = False

    Container(Batches(20)).run()


class Windowed(MessagingHandler):
    """At most a window of messages without an outcome; a refusal is taken for an outcome, or sent again."""

    is_filling = False

    def __init__(self, window, resends=False, pause=0.0, options=None, addressed=False):
        super().__init__()
        self.window, self.resends, self.pause, self.options = window, resends, pause, options
        self.addressed = addressed
        self.number, self.unsettled, self.again, self.link = 0, {}, deque(), None

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False)
        event.container.create_sender(
            self.connection, None if self.addressed else QUEUE, options=self.options
        )

    def on_sendable(self, event):
        self.link = event.sender
        self.fill()

    def send(self, number):
        message = Message(body=body(number), address=QUEUE if self.addressed else None)
        delivery = self.link.send(message)
        if not self.options:
            self.unsettled[delivery] = number

    def fill(self):
        while self.link.credit and len(self.unsettled) < self.window and (self.again or self.number < COUNT):
            if self.again:
                self.send(self.again.popleft())
            else:
                self.send(self.number)
                self.number += 1
        if self.number >= COUNT and not self.unsettled and not self.again and not self.waiting:
            self.connection.close()

    waiting = 0

    def on_accepted(self, event):
        self.unsettled.pop(event.delivery, None)
        self.fill()

    def on_released(self, event):
        number = self.unsettled.pop(event.delivery, None)
        if self.resends and number is not None:
            if self.pause:
                self.waiting += 1
                self.container.schedule(self.pause, Later(self, number))
                return
            self.again.append(number)
        self.fill()

    on_rejected = on_released

    def on_link_error(self, event):
        print(event.link.remote_condition.name, file=sys.stderr, flush=True)
        event.connection.close()


class Large(Windowed):
    def send(self, number):
        delivery = self.link.send(Message(body=body(number) + "x" * 70_000))
        self.unsettled[delivery] = number


class Later(MessagingHandler):
    def __init__(self, sender, number):
        super().__init__()
        self.sender, self.number = sender, number

    def on_timer_task(self, event):
        self.sender.waiting -= 1
        self.sender.again.append(self.number)
        self.sender.fill()


class Bursts(MessagingHandler):
    """Fifty by credit, then a pause; nothing is sent again."""

    def __init__(self):
        super().__init__()
        self.number = self.settled = 0
        self.link = None

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False)
        event.container.create_sender(self.connection, QUEUE)

    def on_sendable(self, event):
        if self.link is None:
            self.link = event.sender
            self.on_timer_task(event)

    def on_timer_task(self, event):
        for _ in range(50):
            if self.number < COUNT and self.link.credit:
                self.link.send(Message(body=body(self.number)))
                self.number += 1
        if self.number < COUNT:
            self.container.schedule(0.7, self)

    def on_settled(self, event):
        self.settled += 1
        if self.settled == COUNT:
            self.connection.close()


class InTransactions(MessagingHandler, TransactionHandler):
    """A link that sends or accepts in transactions, the first of which begins at once."""

    def __init__(self, **options):
        super().__init__(**options)
        self.transaction = self.link = None

    def open(self):
        return self.container.create_sender(self.connection, QUEUE)

    def declare(self):
        self.container.declare_transaction(self.connection, handler=self)

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False)
        self.link = self.open()
        self.declare()


class Transacted(InTransactions):
    """Ten messages in a transaction, and the next when it is committed."""

    number = 0

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.fill()

    def on_sendable(self, event):
        self.fill()

    def fill(self):
        while self.transaction and self.link.credit and self.number < COUNT:
            self.transaction.send(self.link, Message(body=body(self.number)))
            self.number += 1
            if self.number % 10 == 0:
                transaction, self.transaction = self.transaction, None
                transaction.commit()

    def on_transaction_committed(self, event):
        if self.number < COUNT:
            self.declare()
        else:
            self.connection.close()

    def on_disconnected(self, event):
        print("disconnected", file=sys.stderr, flush=True)
        os._exit(3)


class Dies(Windowed):
    def on_released(self, event):
        print("SomeError: refused", file=sys.stderr, flush=True)
        os._exit(3)

    on_rejected = on_released


def raw():
    """One connection, one session, one link, in bytes; each outcome is waited for."""
    host, port = os.environ["AMQP_HOST"], int(os.environ["AMQP_PORT"])

    def text(value):
        return b"\xa1" + bytes([len(value)]) + value.encode()

    def described(code, *fields):
        inner = b"".join(fields)
        return b"\x00\x53" + bytes([code]) + b"\xc0" + bytes([len(inner) + 1, len(fields)]) + inner

    def frame(content):
        return (8 + len(content)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + content

    link = socket.create_connection((host, port))
    null = b"\x40"
    link.sendall(b"AMQP\x00\x01\x00\x00")
    link.sendall(frame(described(0x10, text("raw"))))
    wide = b"\x70\x00\x00\xff\xff"
    link.sendall(frame(described(0x11, null, b"\x43", wide, wide, b"\x43")))
    target = described(0x29, text(QUEUE))
    source = described(0x28, text("here"))
    link.sendall(
        frame(described(0x12, text("l"), b"\x43", b"\x42", null, null, source, target, null, null, b"\x43"))
    )
    rest = b""

    def next_frame():
        nonlocal rest
        while True:
            if rest[:4] == b"AMQP":
                rest = rest[8:]
            size = int.from_bytes(rest[:4], "big") if len(rest) >= 4 else 0
            if size and len(rest) >= size:
                whole, rest = rest[:size], rest[size:]
                return whole
            more = link.recv(1 << 16)
            if not more:
                raise SystemExit(4)
            rest += more

    while next_frame()[10:11] != b"\x13":
        pass
    for number in range(COUNT):
        told = number.to_bytes(4, "big")
        content = described(0x14, b"\x43", b"\x70" + told, b"\xa0\x04" + told, b"\x43", b"\x42")
        link.sendall(frame(content + b"\x00\x53\x77" + text(body(number))))
        while (got := next_frame())[10:11] != b"\x15":
            if got[10:11] in (b"\x16", b"\x18"):
                raise SystemExit(5)
    link.sendall(frame(described(0x18)))
    link.close()


class Receives(MessagingHandler):
    """Settles in one of several ways; ``links`` of them, each in batches."""

    def __init__(self, prefetch=10, links=1, batch=1, every=0.0, pause=0.0, drops=False, releases=False):
        super().__init__(prefetch=prefetch, auto_accept=False)
        self.links, self.batch, self.every, self.pause, self.drops = links, batch, every, pause, drops
        self.outcome = Delivery.RELEASED if releases else Delivery.ACCEPTED
        self.kept = {}

    def on_start(self, event):
        self.container = event.container
        connection = event.container.connect(URL, reconnect=False)
        for number in range(self.links):
            event.container.create_receiver(connection, QUEUE, name=f"link {number}")
        if self.every:
            event.container.schedule(self.every, self)

    def on_timer_task(self, event):
        for deliveries in self.kept.values():
            self.settle(deliveries)
        self.container.schedule(self.every, self)

    def settle(self, deliveries):
        for delivery in deliveries:
            delivery.update(self.outcome)
            delivery.settle()
        deliveries.clear()

    def on_message(self, event):
        if self.drops:
            return
        time.sleep(self.pause)
        deliveries = self.kept.setdefault(event.link.name, [])
        deliveries.append(event.delivery)
        if not self.every and len(deliveries) == self.batch:
            self.settle(deliveries)


def tries_four_times():
    """Wait a second for each outcome, else send again on a new connection; give up the fourth time."""
    connection = None
    for number in range(COUNT):
        for _ in range(4):
            try:
                if connection is None:
                    connection, sender = blocking(timeout=1)
                sender.send(Message(body=body(number)), timeout=1)
                break
            except Exception as error:
                print(type(error).__name__, file=sys.stderr, flush=True)
                connection = None
                time.sleep(0.2)
        else:
            raise SystemExit(5)
    connection.close()


class Halts(Windowed):
    """Work for four seconds on something else when half of the messages are sent."""

    has_halted = False

    def fill(self):
        while not self.waiting and self.link.credit and len(self.unsettled) < self.window:
            if self.number == COUNT // 2 and not self.has_halted:
                self.has_halted, self.waiting = True, 1
                self.container.schedule(4, self)
            elif self.number < COUNT:
                self.send(self.number)
                self.number += 1
            else:
                break
        if self.number >= COUNT and not self.unsettled:
            self.connection.close()

    def on_timer_task(self, event):
        self.waiting = 0
        self.fill()


class Alike(MessagingHandler):
    """One body for all messages, on three links of two sessions, each with a window of five."""

    def __init__(self):
        super().__init__()
        self.number = self.settled = 0
        self.open = {}

    def on_start(self, event):
        self.connection = event.container.connect(URL, reconnect=False)
        first, second = self.connection.session(), self.connection.session()
        for session in (first, second):
            session.open()
        for session, name in ((first, "a"), (second, "b"), (second, "c")):
            link = session.sender(name)
            link.target.address = QUEUE
            link.open()
            self.open[link] = 0

    def on_sendable(self, event):
        for link in self.open:
            while link.credit and self.open[link] < 5 and self.number < COUNT:
                link.send(Message(body="tick"))
                self.open[link] += 1
                self.number += 1
        if self.settled == COUNT:
            self.connection.close()

    def on_settled(self, event):
        self.open[event.link] -= 1
        self.settled += 1
        self.on_sendable(event)


class Paced(MessagingHandler):
    """One message each 20 ms, whatever became of the others."""

    def __init__(self):
        super().__init__()
        self.number, self.link = 0, None

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False)
        self.link = event.container.create_sender(self.connection, QUEUE)
        event.container.schedule(0.1, self)

    def on_timer_task(self, event):
        if self.link.credit and self.number < COUNT:
            self.link.send(Message(body=body(self.number)))
            self.number += 1
        if self.number == COUNT and not self.link.unsettled:
            self.connection.close()
        else:
            self.container.schedule(0.02, self)


class ReleasesSome(Receives):
    """Release each third delivery, and accept the others."""

    seen = 0

    def on_message(self, event):
        self.seen += 1
        event.delivery.update(Delivery.RELEASED if self.seen % 3 == 0 else Delivery.ACCEPTED)
        event.delivery.settle()


class HalfDead(Receives):
    """Two links, of which one settles nothing."""

    def on_message(self, event):
        if event.link.name != "link 1":
            super().on_message(event)


def run(handler):
    return lambda: Container(handler()).run()


PROGRAMS = {
    "one by one": one_by_one,
    "one by one, patient": one_by_one_patient,
    "gives up": gives_up,
    "a connection each": a_connection_each,
    "a link each": a_link_each,
    "two connections": two_connections,
    "two queues": two_queues,
    "starts late": starts_late,
    "works late": works_late,
    "batches": batches,
    "window 20": run(lambda: Windowed(20)),
    "by credit": run(lambda: Windowed(1 << 30)),
    "resends at once": run(lambda: Windowed(20, resends=True)),
    "resends later": run(lambda: Windowed(20, resends=True, pause=0.3)),
    "presettled": run(lambda: Windowed(20, options=AtMostOnce())),
    "anonymous relay": run(lambda: Windowed(20, addressed=True)),
    "bursts": run(Bursts),
    "transactions": run(Transacted),
    "dies": run(lambda: Dies(20)),
    "raw": raw,
    "tries four times": tries_four_times,
    "halts": run(lambda: Halts(12)),
    "alike": run(Alike),
    "paced": run(Paced),
    "large": run(lambda: Large(4, resends=True, pause=0.1)),
    "receives one by one": run(Receives),
    "receives slowly": run(lambda: Receives(pause=1.0)),
    "receives by time": run(lambda: Receives(prefetch=100, every=1.5)),
    "receives in batches": run(lambda: Receives(prefetch=100, batch=5)),
    "receives on two links": run(lambda: Receives(prefetch=20, links=2, batch=4)),
    "receives in large batches": run(lambda: Receives(prefetch=100, batch=40)),
    "settles nothing": run(lambda: Receives(drops=True)),
    "receives and releases": run(lambda: Receives(releases=True)),
    "prefetch 1": run(lambda: Receives(prefetch=1)),
    "receives and releases some": run(ReleasesSome),
    "receives on one of two links": run(lambda: HalfDead(prefetch=4, links=2)),
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
