"""A simulator of its own: producers, queues with flow control, consumers, and what they would log.

It imports nothing of the kit and draws no number, so that it can refute the kit: its runs are compared with
the engine's (``tests/workload/test_independent_runs.py``); its logs are a stranger's logs, for predictions
and designs.  ``foreign_workloads.py`` draws setups for it, and writes its logs.

The rules: ON when a message makes count or bytes exceed stop (FC-14); held while ON (FC-15); OFF strictly
below both resume levels (FC-16, FC-17); a message wakes the first of the idle consumers (CN-19); a group
belongs to the consumer that holds messages of it, and cursors start again when one is freed (MG-07 to MG-13).
"""

import heapq
from collections import Counter, deque
from itertools import count
from types import SimpleNamespace as State

US = 1_000_000
JOIN, SETTLE, SEND = range(3)
FANOUT = "amq.fanout"

_COUNTED = ("sent", "known", "blocked", "served", "is_busy", "cursor", "version", "accepts")
_NOTHING = dict.fromkeys(_COUNTED, 0) | {"full_since": None, "died": None}


class Run:
    """One run of a setup, over its duration."""

    def __init__(self, setup):
        self.setup, self.end, self.now = setup, setup.duration, 0
        # Each row: time, client, event, queue, message.
        self.rows, self.agenda, self.entered = [], [], count()
        self.queues = {rules.name: _QueueState(rules) for rules in setup.queues}
        self.clients = {
            client.name: State(**_NOTHING, out={}, took=[], waited=[], backlog=deque(), credit=client.window)
            for client in (*setup.producers, *setup.consumers)
        }
        for consumer in setup.consumers:
            self.enter(consumer.start, JOIN, self.dispatch, consumer)
        for producer in setup.producers:
            if producer.messages:
                self.enter(producer.messages[0][0], SEND, self.offer, producer)
        while self.agenda and self.agenda[0][0] <= self.end:
            self.now, _, _, action, given = heapq.heappop(self.agenda)
            action(*given)
        for queue in self.queues.values():
            queue.pass_time(self.end)

    def enter(self, time, priority, action, *given):
        heapq.heappush(self.agenda, (time, priority, next(self.entered), action, given))

    def travel(self, client, action, *given):
        if client.delay:
            self.enter(self.now + client.delay, SETTLE, action, client, *given)
        else:
            action(client, *given)

    def log(self, client, event, queue="", message=None):
        self.rows.append((self.now, client.name, event, queue, message))

    def offer(self, producer):
        state = self.clients[producer.name]
        if state.died is not None or state.sent == len(producer.messages):
            return
        if state.sent - state.known >= producer.window:
            state.full_since = self.now
            self.log(producer, "block")
            return
        due, size, group = producer.messages[state.sent]
        state.sent += 1
        label = f"{producer.name}-{state.sent}"
        state.out[label] = self.now
        state.waited.append(self.now - due)
        message = State(label=label, size=size, group=group, sender=producer, holds=0)
        self.log(producer, "transfer", producer.to, message)
        self.travel(producer, self.arrive, message)
        if state.sent < len(producer.messages):
            self.enter(max(self.now, producer.messages[state.sent][0]), SEND, self.offer, producer)

    def arrive(self, producer, message):
        woken, state = [], self.clients[producer.name]
        for queue in map(self.queues.get, producer.queues):
            if queue.rules.limit and len(queue.messages) >= queue.rules.limit:
                if not queue.rules.is_ring:
                    state.died = self.now
                    continue
                queue.discards += 1
                self.leave(queue, min(queue.messages))
            queue.add(message, self.now)
            woken += [queue.idle.popleft()] if queue.idle else []
        if state.died is None and not message.holds:
            self.travel(producer, self.learn, message)
        for consumer in woken:
            self.dispatch(consumer)

    def learn(self, producer, message):
        state = self.clients[producer.name]
        state.known += 1
        state.took.append(self.now - state.out.pop(message.label))
        self.log(producer, "complete", "", message)
        if state.full_since is not None:
            state.blocked += self.now - state.full_since
            state.full_since = None
            self.log(producer, "unblock")
            self.enter(self.now, SEND, self.offer, producer)

    def leave(self, queue, position):
        for message in queue.remove(position, self.now):
            message.holds -= 1
            if not message.holds and self.clients[message.sender.name].died is None:
                self.travel(message.sender, self.learn, message)

    def dispatch(self, consumer):
        state, queue = self.clients[consumer.name], self.queues[consumer.queues[0]]
        while state.credit:
            found = queue.acquire(consumer, state)
            if found is None:
                queue.idle.append(consumer)
                return
            state.credit -= 1
            self.travel(consumer, self.receive, state.cursor, found.message)

    def receive(self, consumer, position, message):
        state = self.clients[consumer.name]
        self.log(consumer, "deliver", consumer.queues[0], message)
        state.backlog.append((position, message))
        if not state.is_busy:
            self.serve(consumer, state)

    def serve(self, consumer, state):
        state.is_busy = bool(state.backlog)
        if state.is_busy:
            service = consumer.services[state.served % len(consumer.services)]
            state.served += 1
            self.enter(self.now + service, SETTLE, self.finish, consumer, state)

    def finish(self, consumer, state):
        position, message = state.backlog.popleft()
        self.log(consumer, "accept", consumer.queues[0], message)
        self.travel(consumer, self.settle, state, position)
        self.serve(consumer, state)

    def settle(self, consumer, state, position):
        queue = self.queues[consumer.queues[0]]
        state.accepts += 1
        if position in queue.messages:
            self.leave(queue, position)
        else:
            # A ring dropped it while it was served.
            queue.saved += 1
        state.credit += 1
        if state.credit == 1:
            self.dispatch(consumer)

    def queue(self, name):
        """Return the measures of a queue."""
        queue = self.queues[name]
        accepts = sum(self.clients[c.name].accepts for c in self.setup.consumers if c.queues[0] == name)
        found = {"mean_depth": queue.area / self.end, "max_depth": queue.most, "max_bytes": queue.most_bytes}
        found |= {"share_on": queue.time_on / self.end, "flowStoppedCount": queue.stops}
        found |= {"discards": queue.discards, "lost": queue.discards - queue.saved}
        return found | {"throughput": accepts * US / self.end}

    def producer(self, name):
        """Return the measures of a producer."""
        state = self.clients[name]
        until = self.end if state.died is None else state.died
        blocked = state.blocked + (0 if state.full_since is None else until - state.full_since)
        messages = next(p.messages for p in self.setup.producers if p.name == name)
        took = state.took + [until - sent for sent in state.out.values()]
        waited = state.waited + [until - due for due, _, _ in messages[state.sent :] if due <= until]
        return {
            "blocked_share": blocked / self.end,
            "throughput": state.sent * US / self.end,
            **{f"latency_p{percent}": nearest_rank(took, percent) for percent in (50, 90, 99)},
            **{f"wait_p{percent}": nearest_rank(waited, percent) for percent in (50, 99)},
            "wait_max": nearest_rank(waited, 100),
        }


class _QueueState:
    def __init__(self, rules):
        self.rules, self.messages, self.position, self.idle = rules, {}, 0, deque()
        self.bytes = self.most = self.most_bytes = self.stops = self.discards = self.saved = 0
        self.since = self.area = self.time_on = self.version = 0
        self.is_on, self.owners, self.acquired = False, {}, Counter()

    def pass_time(self, now):
        self.area += (now - self.since) * len(self.messages)
        self.time_on += (now - self.since) * self.is_on
        self.since = now

    def add(self, message, now):
        self.pass_time(now)
        rules, size = self.rules, _size(message)
        copy = State(message=message, size=size, is_acquired=False, is_held=False)
        self.position += 1
        self.messages[self.position] = copy
        self.bytes += copy.size
        self.most, self.most_bytes = max(self.most, len(self.messages)), max(self.most_bytes, self.bytes)
        is_above = 0 < rules.stop < len(self.messages) or 0 < rules.stop_bytes < self.bytes
        self.stops += is_above and not self.is_on
        self.is_on |= is_above
        copy.is_held = self.is_on
        message.holds += self.is_on

    def remove(self, position, now):
        """Remove a message, and return the messages that are held no more."""
        self.pass_time(now)
        copy, rules, group = self.messages.pop(position), self.rules, None
        self.bytes -= copy.size
        if copy.is_acquired and rules.is_grouped:
            group = copy.message.group
            self.acquired[group] -= 1
            if not self.acquired[group]:
                del self.owners[group]
                self.version += any(one.message.group == group for one in self.messages.values())
        is_below = not rules.resume or len(self.messages) < rules.resume
        is_below &= not rules.resume_bytes or self.bytes < rules.resume_bytes
        self.is_on &= not is_below
        freed = [one for one in ([copy] if self.is_on else [copy, *self.messages.values()]) if one.is_held]
        for one in freed:
            one.is_held = False
        return [one.message for one in freed]

    def acquire(self, consumer, state):
        """Return the first message after its cursor that a consumer may have, or None."""
        if state.version != self.version:
            state.cursor, state.version = 0, self.version
        for position in [position for position in self.messages if position > state.cursor]:
            state.cursor, copy = position, self.messages[position]
            group = copy.message.group
            if not copy.is_acquired and self.owners.get(group, consumer) is consumer:
                copy.is_acquired = True
                if self.rules.is_grouped:
                    self.owners[group] = consumer
                    self.acquired[group] += 1
                return copy
        return None


def _size(message):
    """Return content bytes, properties, and two application headers (DQ-05 to DQ-07)."""
    to = 2 + len(message.sender.to)
    group = 9 + len(message.group) if message.group else 0
    return message.size + 8 + to + 8 + 8 + 9 + len(message.label) + group


def nearest_rank(times, percent):
    """Return the least time that a share of all times does not exceed, in seconds."""
    return sorted(times)[max(0, -(-len(times) * percent // 100) - 1)] / US if times else None
