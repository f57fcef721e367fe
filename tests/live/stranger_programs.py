"""More programs for the counting proxy: several speeds, transactions that fail, links that come and go."""

import os
import sys
import time
from random import Random

from checked_programs import (
    COUNT,
    QUEUE,
    URL,
    Dynamic,
    InTransactions,
    Receives,
    Windowed,
    blocking,
    body,
    run,
)
from checked_programs import PROGRAMS as CHECKED
from proton import Delivery, Link, Message
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container, LinkOption
from proton.utils import BlockingConnection, SendException

# Senders


class TwoSpeeds(MessagingHandler):
    """Two links of one connection: one with a window of three, one that sends each 50 ms."""

    def __init__(self):
        super().__init__()
        self.number = self.settled = self.open = 0

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False)
        self.fast, self.slow = (
            event.container.create_sender(self.connection, QUEUE, name=name) for name in ("fast", "slow")
        )
        event.container.schedule(0.05, self)

    def send_one(self, link):
        if not link.credit or self.number == COUNT:
            return False
        link.send(Message(body=body(self.number)))
        self.number += 1
        return True

    def on_sendable(self, event):
        while self.open < 3 and self.send_one(self.fast):
            self.open += 1

    def on_timer_task(self, event):
        if not self.slow.unsettled:
            self.send_one(self.slow)
        if self.settled < COUNT:
            self.container.schedule(0.05, self)

    def on_settled(self, event):
        self.settled += 1
        self.open -= event.link.name == "fast"
        self.on_sendable(event)
        if self.settled == COUNT:
            self.connection.close()


class TriesThrice(Windowed):
    """A refused message is sent again twice, and then dropped."""

    def __init__(self):
        super().__init__(8)
        self.tries = {}

    def on_released(self, event):
        number = self.unsettled.pop(event.delivery, None)
        if number is not None:
            self.tries[number] = self.tries.get(number, 0) + 1
            if self.tries[number] < 3:
                self.again.append(number)
            self.fill()

    on_rejected = on_released


def a_connection_for_twenty():
    """A new connection for each 20 messages, and after a refusal."""
    number = 0
    while number < COUNT:
        connection, sender = blocking()
        for _ in range(20):
            if number < COUNT:
                try:
                    sender.send(Message(body=body(number)))
                except SendException:
                    time.sleep(0.1)
                    break
                number += 1
        connection.close()


class TellsRefusals(Windowed):
    """Refusals are counted, and end the program with a status when all is sent."""

    refused = 0

    def on_released(self, event):
        self.refused += 1
        super().on_released(event)

    on_rejected = on_released

    def on_connection_closed(self, event):
        if self.refused:
            print("RuntimeError: some refused", file=sys.stderr, flush=True)
            os._exit(4)


def relay_one_by_one():
    """Send on an anonymous relay, with another link open that carries nothing."""
    connection = BlockingConnection(URL, timeout=None)
    relay = connection.create_sender(None)
    connection.create_sender(None, options=Dynamic())
    for number in range(COUNT):
        relay.send(Message(body=body(number), address=QUEUE))
    connection.close()


class TwoSessions(Windowed):
    """Two sessions of one connection, whose links share a window; a session ends when its half is sent."""

    def on_start(self, event):
        self.connection = event.container.connect(URL, reconnect=False)
        self.senders = []
        for name in ("first", "second"):
            session = self.connection.session()
            session.open()
            link = session.sender(name)
            link.target.address = QUEUE
            link.open()
            self.senders.append(link)

    def fill(self):
        first, second = self.senders
        while len(self.unsettled) < self.window and self.number < COUNT:
            self.link = first if self.number < COUNT // 2 else second
            if not self.link.credit:
                break
            self.send(self.number)
            self.number += 1
        if self.number > COUNT // 2 and not first.unsettled and first.state & Link.LOCAL_ACTIVE:
            first.close()
            first.session.close()
        if self.number == COUNT and not self.unsettled:
            self.connection.close()


def pauses():
    """Pause for three seconds in the middle, one message at a time."""
    connection, sender = blocking()
    for number in range(COUNT):
        if number in (5, COUNT // 2):
            time.sleep(3)
        sender.send(Message(body=body(number)))
    connection.close()


class SettlesSome(Windowed):
    """Each third message is settled when it is sent; at most ten others are without an outcome."""

    def send(self, number):
        delivery = self.link.send(Message(body=body(number)))
        if number % 3 == 0:
            delivery.settle()
        else:
            self.unsettled[delivery] = number


def presettled_of_chance():
    """Send presettled, another number in each run, as a client that closes before all is written."""
    number, chance = COUNT - 50, Random(os.getpid())

    class Sends(Windowed):
        def fill(self):
            while self.link.credit and self.number < self.most:
                self.send(self.number)
                self.number += 1
            if self.number == self.most:
                self.connection.close()

    handler = Sends(20, options=AtMostOnce())
    handler.most = number + chance.randrange(50)
    Container(handler).run()


class Aborts(InTransactions):
    """Transactions of seven; each third is rolled back, and its messages are sent again in the next."""

    number = count = 0

    def on_transaction_declared(self, event):
        self.transaction, self.sent = event.transaction, 0
        self.count += 1
        self.fill()

    def on_sendable(self, event):
        self.fill()

    def fill(self):
        while self.transaction and self.link.credit:
            most = min(7, COUNT - self.number)
            if self.sent < most:
                self.transaction.send(self.link, Message(body=body(self.number + self.sent)))
                self.sent += 1
            if self.sent == most:
                transaction, self.transaction = self.transaction, None
                (transaction.abort if self.count % 3 == 0 else transaction.commit)()

    def on_transaction_committed(self, event):
        self.number += self.sent
        if self.number < COUNT:
            self.declare()
        else:
            self.connection.close()

    def on_transaction_aborted(self, event):
        self.declare()

    def on_disconnected(self, event):
        print("disconnected", file=sys.stderr, flush=True)
        os._exit(3)


def falls_back():
    """Give each message two seconds on a connection, then send it to a queue of one's own on a new one."""
    connection, sender, fallback = None, None, None
    for number in range(COUNT):
        try:
            if sender is None and fallback is None:
                connection, sender = blocking(timeout=2)
            (fallback or sender).send(Message(body=body(number)), timeout=2)
        except Exception as error:
            print(type(error).__name__, file=sys.stderr, flush=True)
            connection = BlockingConnection(URL, timeout=2)
            fallback = connection.create_sender(None, options=Dynamic())
            fallback.send(Message(body=body(number)))
    connection.close()


class SettlesSecond(LinkOption):
    """The receiver settles second: it tells the outcome, and settles when the sender has."""

    def apply(self, link):
        link.snd_settle_mode, link.rcv_settle_mode = Link.SND_UNSETTLED, Link.RCV_SECOND


class SendsSecond(Windowed):
    """An outcome counts when it is told, and the sender settles then."""

    def __init__(self, window):
        super().__init__(window, options=SettlesSecond())

    def send(self, number):
        self.unsettled[self.link.send(Message(body=body(number)))] = number


class Reattaches(Windowed):
    """A link for each 25 messages, which is closed when all have their outcome."""

    def fill(self):
        while self.link.credit and len(self.unsettled) < self.window and self.of_link < 25:
            if self.number == COUNT:
                break
            self.send(self.number)
            self.number += 1
            self.of_link += 1
        if self.unsettled:
            return
        if self.number == COUNT:
            self.connection.close()
        elif self.of_link == 25:
            self.link.close()
            self.of_link = 0
            name = f"link {self.number}"
            self.link = self.container.create_sender(self.connection, QUEUE, name=name)

    of_link = 0

    def on_sendable(self, event):
        if self.link is None or event.sender == self.link:
            super().on_sendable(event)


class Expires(Windowed):
    """Messages live for half a second, so they leave a stopped queue by themselves."""

    def send(self, number):
        delivery = self.link.send(Message(body=body(number), ttl=0.5))
        self.unsettled[delivery] = number


class BothWays(Windowed):
    """A sender that listens on a queue of its own for answers, and asks for each twentieth one."""

    def on_start(self, event):
        super().on_start(event)
        self.answers = event.container.create_receiver(self.connection, None, dynamic=True)

    def send(self, number):
        answers = self.answers.remote_source.address if number % 20 == 0 else None
        delivery = self.link.send(Message(body=body(number), reply_to=answers))
        self.unsettled[delivery] = number


# Receivers


class TopsUp(MessagingHandler):
    """Credit of five, and three more whenever three are settled."""

    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)
        self.settled = 0

    def on_start(self, event):
        connection = event.container.connect(URL, reconnect=False)
        event.container.create_receiver(connection, QUEUE).flow(5)

    def on_message(self, event):
        self.accept(event.delivery)
        self.settled += 1
        if self.settled % 3 == 0:
            event.receiver.flow(3)


class AtMost(MessagingHandler):
    """Messages come settled, and 50 ms pass with each."""

    def __init__(self):
        super().__init__(prefetch=4)

    def on_start(self, event):
        connection = event.container.connect(URL, reconnect=False)
        event.container.create_receiver(connection, QUEUE, options=AtMostOnce())

    def on_message(self, event):
        time.sleep(0.05)


class Settles(Receives):
    """Settle each message by a rule; without prefetch ask for one at a time."""

    def __init__(self, choose, prefetch=10):
        super().__init__(prefetch)
        self.choose, self.seen, self.asks = choose, 0, not prefetch

    def on_link_opened(self, event):
        if self.asks:
            event.receiver.flow(1)

    def on_message(self, event):
        self.seen += 1
        event.delivery.local.failed = True
        event.delivery.update(self.choose(self.seen, event.message))
        event.delivery.settle()
        if self.asks:
            event.receiver.flow(1)


class Drains(MessagingHandler):
    """Ask for ten with drain each 0.2 s, accept what comes, and ask again."""

    def __init__(self):
        super().__init__(prefetch=0)

    def on_start(self, event):
        self.container = event.container
        connection = event.container.connect(URL, reconnect=False)
        self.link = event.container.create_receiver(connection, QUEUE)
        event.container.schedule(0.2, self)

    def on_timer_task(self, event):
        if not self.link.credit:
            self.link.drain(10)
        self.container.schedule(0.2, self)


class Visits(MessagingHandler):
    """Accept ten messages on a link, close it, and come back with another after half a second."""

    def __init__(self):
        super().__init__(prefetch=10)
        self.seen = 0

    def on_start(self, event):
        self.container = event.container
        self.connection = event.container.connect(URL, reconnect=False)
        self.on_timer_task(event)

    def on_message(self, event):
        self.seen += 1
        if self.seen % 10 == 0:
            event.receiver.close()
            self.container.schedule(0.5, self)

    def on_timer_task(self, event):
        self.container.create_receiver(self.connection, QUEUE, name=f"visit {self.seen}")


class ReceivesSecond(MessagingHandler):
    """Tell the outcome first, and settle when the broker has settled (``rcv-settle-mode`` second)."""

    def __init__(self):
        super().__init__(prefetch=10, auto_accept=False, auto_settle=False)

    def on_start(self, event):
        connection = event.container.connect(URL, reconnect=False)
        event.container.create_receiver(connection, QUEUE, options=SettlesSecond())

    def on_message(self, event):
        event.delivery.update(Delivery.ACCEPTED)

    def on_settled(self, event):
        event.delivery.settle()


class Transacts(InTransactions):
    """Accept four messages in a transaction, and the next four when it is committed."""

    def __init__(self):
        super().__init__(prefetch=0, auto_accept=False)
        self.kept = []

    def open(self):
        return self.container.create_receiver(self.connection, QUEUE)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.link.flow(4)

    def on_message(self, event):
        self.transaction.accept(event.delivery)
        self.kept.append(event.delivery)
        if len(self.kept) == 4:
            self.transaction.commit()

    def on_transaction_committed(self, event):
        self.kept.clear()
        self.declare()


def rejects_each_fifth(seen, message):
    return Delivery.REJECTED if seen % 5 == 0 else Delivery.ACCEPTED


def releases_once(seen, message):
    """Release each second delivery, which comes again."""
    return Delivery.RELEASED if seen % 2 else Delivery.ACCEPTED


def modifies_once(seen, message):
    """Report each message as failed when it comes first."""
    return Delivery.ACCEPTED if message.delivery_count else Delivery.MODIFIED


SENDERS = {
    "two speeds": run(TwoSpeeds),
    "tries thrice": run(TriesThrice),
    "a connection for twenty": a_connection_for_twenty,
    "tells refusals": run(lambda: TellsRefusals(7)),
    "relay one by one": relay_one_by_one,
    "two sessions": run(lambda: TwoSessions(10)),
    "pauses": pauses,
    "settles some": run(lambda: SettlesSome(10)),
    "presettled of chance": presettled_of_chance,
    "rolls back": run(Aborts),
    "falls back": falls_back,
    "settles second": run(lambda: SendsSecond(6)),
    "a link for 25": run(lambda: Reattaches(10)),
    "expires": run(lambda: Expires(15)),
    "both ways": run(lambda: BothWays(12)),
}
RECEIVERS = {
    "tops up": run(TopsUp),
    "at most once": run(AtMost),
    "rejects each fifth": run(lambda: Settles(rejects_each_fifth)),
    "drains": run(Drains),
    "releases once": run(lambda: Settles(releases_once, prefetch=0)),
    "modifies once": run(lambda: Settles(modifies_once)),
    "visits": run(Visits),
    "receives second": run(ReceivesSecond),
    "transacts": run(Transacts),
}

if __name__ == "__main__":
    {**CHECKED, **SENDERS, **RECEIVERS}[sys.argv[1]]()
