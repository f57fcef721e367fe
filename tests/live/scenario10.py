"""Plays a recorded scenario of AMQP 1.0 clients against a server, and returns what they saw.

One thread drives all clients on bare Proton connections.  After each step every connection makes a round trip
of its own, so that whatever was asked for has happened; then it is quiet for a moment.  A scenario is data:
steps, and what was seen at each of them when it was recorded (``data/recordings/amqp10/FORMAT.md``).
"""

from __future__ import annotations

import json
import re
import select
import socket
import time
from collections import Counter

from proton import (
    UNDESCRIBED,
    Array,
    Collector,
    Connection,
    Data,
    Described,
    Endpoint,
    Event,
    Message,
    Terminus,
    Transport,
    symbol,
    ulong,
)

STATES = {0: "none", 0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified", 0x33: "declared"}
NUMBERED = re.compile(rf"((?:(?:{'|'.join(STATES.values())}) )?[^\s\d]+)(\d+)( .*)?")
STATISTICS = [
    "msgDepth",
    "flowStopped",
    "flowStoppedCount",
    "msgTotalEnqueues",
    "msgTotalDequeues",
    "acquires",
    "releases",
    "unackedMessages",
    "consumerCount",
    "discardsOverflow",
    "discardsRing",
    "discardsLvq",
    "discardsTtl",
    "discardsSubscriber",
    "reroutes",
]
MODES = {"unsettled": 0, "settled": 1, "mixed": 2}
FILTERS = {"subject": "legacy-amqp-topic-binding", "selector": "selector-filter"}
EXPIRY = {"never": Terminus.EXPIRE_NEVER, "link": Terminus.EXPIRE_WITH_LINK}
BROKER = "org.apache.qpid.broker:broker:amqp-broker"
QUEUE = "org.apache.qpid.broker:queue:"


class Client:
    """One connection."""

    def __init__(self, world, container, idle=0, sasl=True):
        self.container, self.world = container, world
        self.socket = socket.create_connection(("127.0.0.1", world.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection, self.events, self.transport = Connection(), Collector(), Transport()
        self.connection.container, self.connection.hostname = container, "127.0.0.1"
        self.connection.collect(self.events)
        if sasl:
            self.transport.sasl().allowed_mechs("ANONYMOUS")
        if idle:
            self.transport.idle_timeout = idle
        self.transport.bind(self.connection)
        self.connection.open()
        self.session = self.connection.session()
        self.session.open()
        self.is_gone = self.is_known_gone = False
        self.seen, self.links, self.names, self.asked = {}, {}, {}, {}
        self.held, self.sent, self.last, self.bodies, self.replies = {}, Counter(), {}, {}, {}
        self.tags = 0
        self.transaction = None
        world.clients.append(self)

    # Bytes

    def write(self):
        while not self.is_gone:
            size = self.transport.pending()
            if size <= 0:
                return
            try:
                self.socket.sendall(self.transport.peek(size))
            except OSError:
                self.lose()
                return
            self.transport.pop(size)

    def read(self):
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.lose()
        while data and self.transport.capacity() > 0:
            part, data = data[: self.transport.capacity()], data[self.transport.capacity() :]
            self.transport.push(part)
            self.handle()
        self.handle()

    @property
    def has_ended(self):
        return self.is_gone or bool(self.connection.state & Endpoint.REMOTE_CLOSED)

    def lose(self):
        if not self.is_gone:
            self.is_gone = True
            self.transport.close_tail()

    # Events

    def note(self, wire, what):
        self.seen.setdefault(self.names.get(wire, wire), []).append(what)

    def handle(self):
        while (event := self.events.peek()) is not None:
            kind = event.type
            if kind == Event.DELIVERY:
                self.delivered(event.delivery)
            elif kind == Event.LINK_REMOTE_OPEN:
                self.attached(event.link)
            elif kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
                is_closed = kind == Event.LINK_REMOTE_CLOSE
                condition = reason(event.link.remote_condition)
                self.note(event.link.name, {"closed" if is_closed else "detached": condition})
                if event.link.state & Endpoint.LOCAL_ACTIVE:
                    (event.link.close if is_closed else event.link.detach)()
            elif kind == Event.SESSION_REMOTE_CLOSE and event.session.state & Endpoint.LOCAL_ACTIVE:
                self.note("(session)", {"ended": reason(event.session.remote_condition)})
                event.session.close()
            elif kind == Event.CONNECTION_REMOTE_CLOSE and self.connection.state & Endpoint.LOCAL_ACTIVE:
                self.note("(connection)", {"closed": reason(self.connection.remote_condition)})
                self.connection.close()
            elif kind == Event.TRANSPORT_ERROR:
                self.note("(connection)", {"transport": reason(self.transport.condition)})
            self.events.pop()

    def attached(self, link):
        terminus = link.remote_source if link.is_receiver else link.remote_target
        answer = {}
        if terminus.type == Terminus.UNSPECIFIED:
            answer["attach"] = "refused"
        if self.asked.get(self.names.get(link.name, link.name), {}).get("dynamic"):
            answer["address"] = (terminus.address or "").replace(self.container, "<container>") or None
        for name in ("capabilities", "properties"):
            value = json_of(getattr(terminus, name))
            if value:
                answer[name] = value
        if link.is_receiver:
            filters = json_of(terminus.filter)
            if filters:
                answer["filter"] = filters
            if terminus.distribution_mode == Terminus.DIST_MODE_COPY:
                answer["mode"] = "copy"
        if answer:
            self.note(link.name, answer)

    def delivered(self, delivery):
        link = delivery.link
        if link.is_receiver:
            if delivery.readable and not delivery.partial:
                data = link.recv(delivery.pending)
                link.advance()
                self.got(link, delivery, data)
        elif delivery.updated and (delivery.remote_state or delivery.settled):
            state = STATES.get(int(delivery.remote_state), str(delivery.remote_state))
            if link.name == "(tx)":
                data = delivery.remote.data
                self.replies[delivery.tag] = bytes(data[0]) if data else b""
                refused = {"rejected": reason(delivery.remote.condition)}
                self.note("(tx)", refused if state == "rejected" else state)
            elif (link.name, delivery.tag) in self.bodies:
                suffix = "" if delivery.settled else " unsettled"
                self.note(link.name, f"{state} {self.bodies[link.name, delivery.tag]}{suffix}")
            delivery.settle()

    def got(self, link, delivery, data):
        message = Message()
        message.decode(data)
        what = str(message.body)
        what += f" count={message.delivery_count}" if message.delivery_count else ""
        what += " first" if message.first_acquirer else ""
        what += f" annotations={json.dumps(plain(message.annotations))}" if message.annotations else ""
        name = self.names.get(link.name, link.name)
        if name == "(replies)":
            self.world.answers.append(message)
        if delivery.settled:
            what += " settled"
            delivery.settle()
        else:
            self.held.setdefault(name, []).append((str(message.body), delivery))
        self.note(link.name, what)


def reason(condition):
    """Return a condition as name and text, without the broker's source positions and addresses."""
    if not condition:
        return None
    text = condition.description
    if text is not None:
        text = re.sub(r"0x[0-9a-f]{6,}", "<id>", re.sub(r" \(/[^ ()]*:\d+\)", "", str(text)))
    return [condition.name, text]


def json_of(data):
    """Return a piece of Proton's data as JSON can hold it; a described value under its descriptor."""
    data.rewind()
    return plain(data.get_object()) if data.next() else None


def plain(value):
    if isinstance(value, Described):
        return {f"@{value.descriptor}": plain(value.value)}
    if isinstance(value, dict):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple | Array):
        return [plain(item) for item in (value.elements if isinstance(value, Array) else value)]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


class World:
    """Clients of a broker that is served here, all on one thread."""

    def __init__(self, served):
        self.served, self.port, self.clients = served, served.server.address[1], []

    def pump(self, until=None, quiet=None, timeout=30.0):
        """Move bytes until a condition holds, or until nothing has moved for a while."""
        end = last = time.monotonic()
        end += timeout
        while True:
            for client in self.clients:
                client.handle()
                client.write()
            if until is not None and until():
                return True
            alive = {client.socket: client for client in self.clients if not client.is_gone}
            ready = select.select(list(alive), [], [], quiet if quiet else 0.02)[0] if alive else []
            for one in ready:
                alive[one].read()
            now = time.monotonic()
            if ready:
                last = now
            elif quiet is not None and now - last >= quiet:
                return False
            if now > end:
                return False


class Player(World):
    """Plays scenarios; ``quiet`` is in seconds."""

    def __init__(self, served, quiet=0.01):
        super().__init__(served)
        self.quiet, self.answers = quiet, []
        self.admin = Client(self, f"admin-{time.time_ns()}")
        replies = self.admin.session.receiver("(replies)")
        replies.source.dynamic = True
        replies.open()
        replies.flow(100_000)
        self.requests = self.admin.session.sender("requests")
        self.requests.target.address = "qmf.default.direct"
        self.requests.open()
        assert self.pump(lambda: replies.remote_source.address and self.requests.credit)
        self.replies = replies

    # Moving bytes

    def containers(self):
        """Return the containers of the clients that the server knows."""
        with self.served.lock:
            return [peer.container for peer in self.served.server.peers()]

    def settle_down(self, clients):
        """Make two round trips on each connection, then wait for silence."""
        for _ in range(2):
            trips = []
            for client in clients:
                if client.connection.state & Endpoint.LOCAL_ACTIVE and not client.has_ended:
                    session = client.connection.session()
                    session.open()
                    trips.append((client, session))
            self.pump(
                lambda trips=trips: all(
                    client.has_ended or session.state & Endpoint.REMOTE_ACTIVE for client, session in trips
                )
            )
            for _, session in trips:
                session.close()
        self.pump(quiet=self.quiet)

    # Management

    def ask(self, opcode, body):
        message = Message(body=body, subject="broker", reply_to=self.replies.remote_source.address)
        message.properties = {"x-amqp-0-10.app-id": "qmf2", "qmf.opcode": opcode, "method": "request"}
        self.admin.tags += 1
        message.correlation_id = f"request-{self.admin.tags}"
        self.requests.delivery(str(self.admin.tags))
        self.requests.send(message.encode())
        self.requests.advance()
        self.answers.clear()
        self.admin.seen.clear()
        assert self.pump(lambda: self.answers), f"no answer to {body}"
        for _, delivery in self.admin.held.pop("(replies)", []):
            delivery.update(0x24)
            delivery.settle()
        answer = self.answers[0]
        assert answer.correlation_id == message.correlation_id
        return answer.properties["qmf.opcode"], answer.body

    def call(self, method, identity=BROKER, **arguments):
        """Call a method of the broker or a queue; return the text of its refusal, or None."""
        body = {"_object_id": {"_object_name": identity}, "_method_name": method, "_arguments": arguments}
        opcode, answer = self.ask("_method_request", body)
        return answer["_values"]["error_text"] if opcode == "_exception" else None

    def statistics(self, queue):
        """Return a queue's statistics, or None."""
        asked = {"_what": "OBJECT", "_object_id": {"_object_name": QUEUE + queue}}
        _, found = self.ask("_query_request", asked)
        return found[0]["_values"] if found else None

    # Scenarios

    def play(self, scenario):
        """Return what is seen at each step."""
        self.by_name, self.home, self.name = {}, {}, scenario["name"]
        made = [(s.get("kind", "queue"), s["name"]) for s in scenario["steps"] if s["do"] == "create"]
        made += [("queue", name) for s in scenario["steps"] for name in s.get("cleanup", [])]
        try:
            return [self.step(dict(step)) for step in scenario["steps"]]
        finally:
            for client in self.by_name.values():
                client.connection.close()
            self.pump(quiet=self.quiet)
            for client in self.by_name.values():
                client.socket.close()
                client.is_gone = True
                self.clients.remove(client)
            for kind, name in reversed(made):
                self.call("delete", type=kind, name=name, options={})

    def step(self, step):
        do, is_still = step.pop("do"), step.pop("still", False)
        given = {key: value for key, value in step.items() if key not in ("cleanup", "note")}
        seen = {}
        result = getattr(self, f"do_{do}")(**given)
        if is_still:
            self.pump(quiet=max(0.25, self.quiet))
        elif do not in ("stats", "touch"):
            self.settle_down(list(self.by_name.values()))
        if result is not None:
            seen["result"] = result
        for name, client in sorted(self.by_name.items()):
            for link, items in sorted(client.seen.items()):
                seen[f"{name} {link}" if link.startswith("(") else link] = in_short(items)
            client.seen = {}
            if client.is_gone and not client.is_known_gone:
                client.is_known_gone = True
                seen.setdefault(f"{name} (connection)", []).append("end of stream")
        for name, client in sorted(self.home.items()):
            link = client.links[name]
            if link.is_sender and not client.is_gone:
                now = (client.sent[name] + link.credit, link.queued)
                before = client.last.get(name, (0, 0))
                for what, new, old in zip(("granted", "waiting for credit"), now, before, strict=True):
                    if new != old:
                        seen[f"{name} {what}"] = new
                client.last[name] = now
        return seen

    def link(self, name):
        return self.home[name].links[name]

    def do_create(self, name, kind="queue", args=None):
        return self.call("create", type=kind, name=name, properties=args or {}, strict=True)

    def do_bind(self, exchange, queue, key):
        return self.do_create(f"{exchange}/{queue}/{key}", "binding")

    def do_delete(self, name, kind="queue"):
        return self.call("delete", type=kind, name=name, options={})

    def do_purge(self, name):
        self.call("purge", QUEUE + name, request=0, filter={})

    def do_stats(self, name):
        found = self.statistics(name)
        if found is None:
            return "no such queue"
        return {key: found[key] for key in STATISTICS if found.get(key)}

    def do_connect(self, c, idle=0, sasl=True, container=None):
        self.by_name[c] = Client(self, container or f"{self.name}-{c}", idle, sasl)

    def terminus(self, terminus, address, given):
        if given.get("dynamic"):
            terminus.dynamic = True
        elif address is not None:
            terminus.address = address
        if given.get("create"):
            wanted = [symbol(one) for one in given["create"]]
            terminus.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, *wanted))
        properties = {symbol(key): value for key, value in (given.get("properties") or {}).items()}
        if given.get("lifetime"):
            properties[symbol("lifetime-policy")] = Described(symbol(given["lifetime"]), [])
        if properties:
            terminus.properties.put_object(properties)
        terminus.durability = given.get("durable") or 0
        if given.get("expiry"):
            terminus.expiry_policy = EXPIRY[given["expiry"]]

    def make_link(self, role, c, name, wire, address, given):
        client = self.home[name] = self.by_name[c]
        link = getattr(client.session, role)(wire)
        client.links[name], client.asked[name], client.names[wire] = link, given, name
        self.terminus(link.target if link.is_sender else link.source, address, given)
        if given.get("mode"):
            link.snd_settle_mode = MODES[given["mode"]]
        return link

    def do_sender(self, c, link, to=None, **given):
        self.make_link("sender", c, link, link, to, given).open()

    def do_receiver(self, c, link, source=None, credit=0, wire=None, **given):
        made = self.make_link("receiver", c, link, wire or link, source, given)
        if given.get("copy"):
            made.source.distribution_mode = Terminus.DIST_MODE_COPY
        filters = {
            symbol(name): Described(symbol(f"apache.org:{descriptor}:string"), given[name])
            for name, descriptor in FILTERS.items()
            if given.get(name)
        }
        if filters:
            made.source.filter.put_object(filters)
        made.open()
        if credit:
            made.flow(credit)

    def do_credit(self, link, n):
        self.link(link).flow(n)

    def do_drain(self, link, n):
        receiver = self.link(link)
        receiver.drain(n)
        self.settle_down(list(self.by_name.values()))
        left = receiver.credit
        receiver.drain_mode = False
        return {"credit left": left}

    def do_send(self, link, n, settled=False, tx=None, **given):
        client, sender = self.home[link], self.link(link)
        for index in range(n):
            body = f"{link}{client.sent[link]}"
            client.tags += 1
            client.sent[link] += 1
            delivery = sender.delivery(str(client.tags))
            client.bodies[link, delivery.tag] = body
            if tx:
                delivery.local.data = [client.transaction]
                delivery.update(0x34)
            sender.send(message_of(body, index, **given).encode())
            sender.advance()
            if settled:
                delivery.settle()

    def settle_some(self, link, which, outcome):
        held = self.home[link].held.get(link, [])
        if isinstance(which, list):
            chosen = [item for item in held if item[0] in which]
        else:
            chosen = held[: None if which == "all" else which]
        for item in chosen:
            held.remove(item)
            outcome(item[1])
        return None if chosen else "nothing held"

    def do_accept(self, link, which="all", tx=None):
        def accept(delivery):
            if tx:
                delivery.local.data = [self.home[link].transaction, Described(ulong(0x24), [])]
            delivery.update(0x34 if tx else 0x24)
            delivery.settle()

        return self.settle_some(link, which, accept)

    def do_release(self, link, which="all", state=0x26):
        return self.settle_some(link, which, lambda d: (d.update(state), d.settle()))

    def do_reject(self, link, which="all"):
        return self.do_release(link, which, 0x25)

    def do_modify(self, link, which="all", failed=False, undeliverable=False, annotations=None):
        def modify(delivery):
            delivery.local.failed, delivery.local.undeliverable = failed, undeliverable
            if annotations:
                delivery.local.annotations = {symbol(key): value for key, value in annotations.items()}
            delivery.update(0x27)
            delivery.settle()

        return self.settle_some(link, which, modify)

    def do_close(self, link):
        self.link(link).close()

    def do_detach(self, link):
        self.link(link).detach()

    def do_end(self, c):
        self.by_name[c].session.close()

    def do_disconnect(self, c):
        self.by_name[c].connection.close()

    def do_drop(self, c):
        client = self.by_name[c]
        client.write()
        client.socket.close()
        client.is_gone = client.is_known_gone = True
        # A connection that is lost answers nothing; what its end causes comes with the next round trips.
        assert self.pump(lambda: client.container not in self.containers())

    def do_touch(self, c):
        self.settle_down([self.by_name[c]])

    def do_wait(self, ms):
        end = time.monotonic() + ms / 1000
        self.pump(lambda: time.monotonic() >= end, timeout=ms / 1000 + 5)

    def control(self, client, payload):
        """Send the coordinator a message; return what it says."""
        link = client.links.get("(tx)")
        if link is None:
            link = client.links["(tx)"] = client.session.sender("(tx)")
            link.target.type = Terminus.COORDINATOR
            link.open()
            self.pump(lambda: link.credit or link.state & Endpoint.REMOTE_CLOSED)
        client.tags += 1
        tag = str(client.tags)
        link.delivery(tag)
        link.send(payload)
        link.advance()
        self.pump(lambda: tag in client.replies or client.has_ended or link.state & Endpoint.REMOTE_CLOSED)
        return client.replies.get(tag)

    def do_declare(self, c):
        client = self.by_name[c]
        declare = Message(body=Described(symbol("amqp:declare:list"), [None]))
        client.transaction = self.control(client, declare.encode()) or client.transaction

    def do_discharge(self, c, fail=False):
        client = self.by_name[c]
        discharge = Described(symbol("amqp:discharge:list"), [client.transaction, fail])
        self.control(client, Message(body=discharge).encode())


def message_of(body, index, **given):
    """Return the message that a step sends; of what is given as a list, each has the next."""
    own = {key: one[index % len(one)] if isinstance(one, list) else one for key, one in given.items()}
    groups = own.get("groups")
    properties = own.get("props") if groups is None else {**(own.get("props") or {}), "group": groups}
    message = Message(body=body, properties=properties)
    message.subject, message.address, message.group_id = map(own.get, ("subject", "to", "group_ids"))
    message.ttl = own.get("ttl", 0) / 1000
    if "priority" in own:
        message.priority = own["priority"]
    return message


def in_short(items):
    """Return a step's events with neighbours joined: accepted s0, accepted s1 becomes accepted s0..1.

    Outcomes are put in the order of the sends: the real broker's own order is that of memory addresses.
    """
    words = [_parts(item) for item in items]
    places = [place for place, (head, number, _) in enumerate(words) if number is not None and " " in head]
    in_order = sorted((words[place] for place in places), key=lambda word: (word[0].split()[1], word[1]))
    for place, word in zip(places, in_order, strict=True):
        words[place] = word
    runs = []
    for head, number, rest in words:
        if number is not None and runs and runs[-1][:3] == [head, rest, number - 1]:
            runs[-1][2] = number
        else:
            runs.append([head, rest, number, number])
    return [
        head if first is None else f"{head}{first}{'' if first == last else f'..{last}'}{rest}"
        for head, rest, last, first in runs
    ]


def _parts(item):
    """Take ``accepted s12 unsettled`` or ``s12 first`` apart at its number."""
    found = NUMBERED.fullmatch(item) if isinstance(item, str) else None
    return (item, None, "") if found is None else (found[1], int(found[2]), found[3] or "")
