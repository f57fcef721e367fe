"""A small broker on Proton, for tests of what is in front of one: queues that withhold outcomes.

It brakes as qpidd does on this wire: above the stop level transfers get no outcome until the depth is below
the resume level; at the limit they are released.  Messages are passed on as the bytes that came.
"""

from __future__ import annotations

import threading
from collections import deque

from proton import Delivery, Endpoint, Handler
from proton.reactor import Container


class SmallQueue:
    def __init__(self, stop=0, resume=0, limit=0):
        self.stop, self.resume, self.limit = stop, resume, limit
        self.messages, self.held, self.readers, self.acquired = deque(), {}, [], 0
        self.is_on = False

    @property
    def depth(self):
        return len(self.messages) + self.acquired


class SmallBroker(Handler):
    """Runs in a thread; ``with SmallBroker({"orders": SmallQueue(10, 5)}) as broker: broker.port``."""

    def __init__(self, queues):
        super().__init__()
        self.queues, self.port, self.error = queues, 0, None
        self._ready, self._is_over = threading.Event(), threading.Event()
        self._taken, self._tags = {}, 0
        self.container = Container(self)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join(10)

    def _run(self):
        self.container.timeout = 0.1
        self.container.start()
        while self.container.process() and not self._is_over.is_set():
            if not self.port and self._acceptor:
                self.port = self._acceptor._selectable._delegate.getsockname()[1]
                self._ready.set()
        self.container.stop()

    def on_reactor_init(self, event):
        self._acceptor = event.container.listen("127.0.0.1:0")

    def on_connection_remote_open(self, event):
        event.connection.open()

    def on_session_remote_open(self, event):
        event.session.open()

    def on_link_remote_open(self, event):
        link = event.link
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.open()
        if link.is_receiver:
            link.flow(500)
        else:
            self.queues.setdefault(link.source.address, SmallQueue()).readers.append(link)

    def on_link_flow(self, event):
        if event.link.is_sender:
            self._serve(self.queues[event.link.source.address])

    def on_link_remote_close(self, event):
        self._gone(event.link)
        event.link.close()

    on_link_remote_detach = on_link_remote_close

    def on_session_remote_close(self, event):
        event.session.close()

    def on_connection_remote_close(self, event):
        event.connection.close()

    def on_transport_closed(self, event):
        link = event.connection.link_head(Endpoint.LOCAL_ACTIVE) if event.connection else None
        while link is not None:
            self._gone(link)
            link = link.next(Endpoint.LOCAL_ACTIVE)

    def on_delivery(self, event):
        delivery, link = event.delivery, event.link
        if link.is_receiver:
            if delivery.readable and not delivery.partial:
                payload = link.recv(delivery.pending)
                link.advance()
                self._take(self.queues.setdefault(link.target.address, SmallQueue()), delivery, payload)
                link.flow(500 - link.credit)
        elif delivery in self._taken and (delivery.remote_state or delivery.settled):
            self._settle(delivery)

    def _take(self, queue, delivery, payload):
        if queue.limit and queue.depth >= queue.limit:
            self._answer(delivery, Delivery.RELEASED)
            return
        entry = [payload, None if delivery.settled else delivery]
        queue.messages.append(entry)
        queue.is_on = queue.is_on or bool(queue.stop and queue.depth > queue.stop)
        if delivery.settled:
            delivery.settle()
        elif queue.is_on:
            queue.held[id(entry)] = delivery
        else:
            self._answer(delivery, Delivery.ACCEPTED)
        self._serve(queue)

    def _serve(self, queue):
        for reader in queue.readers:
            while queue.messages and reader.credit > 0:
                entry = queue.messages.popleft()
                self._tags += 1
                sent = reader.delivery(str(self._tags))
                reader.send(entry[0])
                reader.advance()
                queue.acquired += 1
                self._taken[sent] = (queue, entry)

    def _settle(self, delivery):
        queue, entry = self._taken.pop(delivery)
        queue.acquired -= 1
        is_back = delivery.remote_state in (Delivery.RELEASED, Delivery.MODIFIED)
        delivery.settle()
        if is_back:
            queue.messages.appendleft(entry)
            self._serve(queue)
            return
        held = queue.held.pop(id(entry), None)
        if held is not None:
            self._answer(held, Delivery.ACCEPTED)
        if queue.is_on and queue.depth < queue.resume:
            queue.is_on = False
            for each in queue.held.values():
                self._answer(each, Delivery.ACCEPTED)
            queue.held.clear()

    def _gone(self, link):
        if link.is_receiver:
            return
        queue = self.queues.get(link.source.address)
        if queue is not None and link in queue.readers:
            queue.readers.remove(link)
            for delivery in [one for one in self._taken if one.link == link]:
                back, entry = self._taken.pop(delivery)
                back.acquired -= 1
                back.messages.appendleft(entry)
            self._serve(queue)

    def _answer(self, delivery, state):
        delivery.update(state)
        delivery.settle()
