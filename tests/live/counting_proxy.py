"""A proxy that counts for itself: what a client sends through it, and each outcome that comes back.

It stands between a client and the bench, passes every byte on, and decodes frames by Proton's codec alone.
So the statements of a card can be compared with a count that nothing of qflow took part in.

    python counting_proxy.py FOLDER -- COMMAND …

runs the command against itself in place of the broker of ``AMQP_URL``, and writes the count of the run as the
next file of the folder when the command has ended or SIGTERM comes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import urlsplit

from proton import Data, Described, Message, ProtonException

ATTACH, TRANSFER, DISPOSITION, BEGIN = 0x12, 0x14, 0x15, 0x11
STATES = {0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified", 0x34: "transactional"}
COORDINATOR = 0x30


def read_message(payload):
    """Return a message's body as text, and its address, by Proton's own decoder."""
    message = Message()
    with suppress(ProtonException):
        message.decode(payload)
    body = message.body
    return repr(bytes(body) if isinstance(body, memoryview) else body), message.address


def plain(value):
    """Return a value of Proton's as numbers, texts and lists."""
    if isinstance(value, Described):
        return [int(value.descriptor), plain(value.value)]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


class Direction:
    """One direction of a connection: bytes in, frames out."""

    def __init__(self, take):
        self.take, self.rest, self.data = take, b"", Data()

    def feed(self, data):
        self.rest += data
        while len(self.rest) >= 8:
            if self.rest[:4] == b"AMQP":
                self.rest = self.rest[8:]
                continue
            size = int.from_bytes(self.rest[:4], "big")
            if len(self.rest) < size:
                return
            frame, self.rest = self.rest[:size], self.rest[size:]
            offset = 4 * frame[4]
            if frame[5] == 0 and size > offset:
                self.data.clear()
                used = self.data.decode(frame[offset:])
                self.data.rewind()
                self.data.next()
                code, fields = plain(self.data.get_object())
                self.take(code, fields, int.from_bytes(frame[6:8], "big"), frame[offset + used :])


def field(fields, at, otherwise=None):
    return otherwise if len(fields) <= at or fields[at] is None else fields[at]


class Connection:
    """What passed on one connection."""

    def __init__(self, count, number):
        self.count, self.number = count, number
        # The channel of each side, to the client's channel; links by channel and handle.
        self.channels, self.links, self.parts, self.open = {}, {}, {}, {}
        # Deliveries that have an outcome, and how many are settled in the open transaction.
        self.told, self.transacted = set(), []
        self.sent = Direction(self.from_client)
        self.received = Direction(self.from_broker)

    def from_client(self, code, fields, channel, payload):
        if code == ATTACH:
            is_receiver, target = bool(fields[2]), field(fields, 6)
            node = ""
            if isinstance(target, list):
                node = field(target[1], 0) or ("dynamic" if field(target[1], 4) else "")
            if isinstance(target, list) and target[0] == COORDINATOR:
                node = "coordinator"
            self.links[channel, fields[1]] = "receiver" if is_receiver else node
        elif code == TRANSFER:
            key = channel, fields[0]
            first, kept = self.parts.pop(key, (fields, b""))
            if field(fields, 9):
                return
            if field(fields, 5):
                self.parts[key] = first, kept + payload
                return
            body, address = read_message(kept + payload)
            record = {
                # An anonymous relay has no node.
                "node": self.links.get(key, "?") or address,
                "body": body,
                "settled": bool(field(first, 4)) or bool(field(fields, 4)),
                "outcome": "",
                "connection": self.number,
            }
            self.count.transfers.append(record)
            if not record["settled"]:
                self.open[channel, first[1]] = record
                held = sum(
                    not one["outcome"] for one in self.open.values() if one["node"] == self.count.queue
                )
                self.count.most_open = max(self.count.most_open, held)
        elif code == DISPOSITION and fields[0]:
            last, state = field(fields, 2, fields[1]), field(fields, 4)
            is_transactional = state is not None and STATES.get(state[0]) == "transactional"
            kept = self.transacted if is_transactional else self.count.settled
            # A receiver that settles second may tell the outcome first, and then settle.
            told = {(channel, number) for number in range(fields[1], last + 1)} - self.told
            if (state is not None or field(fields, 3)) and told:
                self.told |= told
                kept.append(len(told))

    def from_broker(self, code, fields, channel, payload):
        if code == BEGIN:
            self.channels[channel] = field(fields, 0, channel)
        elif code == TRANSFER:
            self.count.delivered += not field(fields, 5)
        elif code == DISPOSITION and fields[0]:
            state = field(fields, 4)
            word = "nothing" if state is None else STATES.get(state[0], "?")
            for number in range(fields[1], field(fields, 2, fields[1]) + 1):
                record = self.open.pop((self.channels.get(channel, channel), number), None)
                if record is not None:
                    record["outcome"] = word
                    if record["node"] == "coordinator" and "discharge" in record["body"]:
                        self.count.settled += self.transacted
                        self.transacted.clear()


class Count:
    """What passed in one run."""

    def __init__(self, queue, folder):
        self.queue, self.transfers, self.settled = queue, [], []
        self.most_open = self.delivered = 0
        self.path = folder / f"{len(list(folder.glob('*.json'))):03}.json"
        self.write()

    def write(self):
        names = ("transfers", "settled", "most_open", "delivered")
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({name: getattr(self, name) for name in names}))
        beside.replace(self.path)


def passed(source, target, direction, lock):
    """Pass bytes on and count them, until either side closes."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            with lock:
                direction.feed(data)
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_WR if end is target else socket.SHUT_RD)


def main(folder, command):
    broker = urlsplit(os.environ["AMQP_URL"])
    count, lock, threads = Count(os.environ["AMQP_QUEUE"], folder), Lock(), []
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def accept():
        number = 0
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            number += 1
            try:
                server = socket.create_connection((broker.hostname, broker.port))
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(count, number)
            for ends in ((client, server, connection.sent), (server, client, connection.received)):
                threads.append(Thread(target=passed, args=(*ends, lock), daemon=True))
                threads[-1].start()

    Thread(target=accept, daemon=True).start()
    given = {"AMQP_URL": f"amqp://127.0.0.1:{port}", "AMQP_HOST": "127.0.0.1", "AMQP_PORT": str(port)}
    program = subprocess.Popen(command, env={**os.environ, **given})

    def keep():
        # On a busy machine the bench may kill what it has asked to end before that has written anything.
        while True:
            time.sleep(0.3)
            with lock:
                count.write()

    def end(*_):
        with lock:
            count.write()
        os._exit(143)

    Thread(target=keep, daemon=True).start()
    signal.signal(signal.SIGTERM, end)
    status = program.wait()
    for thread in list(threads):
        thread.join(5)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with lock:
        count.write()
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3:])
