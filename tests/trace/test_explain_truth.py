"""Explain tells the truth: each kind of sentence is held against the trace's rows by a reader of its own,
which asks neither the engine nor the explanations; and no sentence tells of a time after the trace.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from functools import cache

import pytest

from qflow.broker.events import COMMANDS
from qflow.trace.explain import explain
from qflow.trace.explain.question import KINDS, _Subjects
from qflow.trace.replaying import trace_of
from qflow.trace.timeline import Timeline
from qflow.workload import Consumer, Producer, Workload, simulate
from qflow.workload.simulate import CLIENT_EVENTS


def us(text):
    """Return seconds as text in microseconds."""
    whole, _, part = text.partition(".")
    return int(whole) * 1_000_000 + int(part.ljust(6, "0") or 0)


class Reader:
    """What the rows of a trace say, from the first to the end of a row's command; and what comes after."""

    def __init__(self, rows, groups, row, workload):
        self.rows, self.groups = rows, groups
        while row + 1 < len(self.rows) and self.rows[row + 1][1] not in COMMANDS | CLIENT_EVENTS.keys():
            row += 1
        self.end, self.workload = row, workload
        self.now, self.last = self.rows[row][0], self.rows[-1][0]
        self.read()

    def read(self):
        self.depth, self.bytes, self.on, self.turns = Counter(), Counter(), {}, Counter()
        self.held, self.sent, self.known, self.complete = {}, Counter(), Counter(), set()
        self.on_queue, self.holder, self.window = {}, {}, {}
        self.owner, self.blocked, self.subscribed = {}, {}, {}
        self.delivery, fresh = {}, Counter()
        for place, (time, kind, queue, session, link, message, detail) in enumerate(
            self.rows[: self.end + 1]
        ):
            if kind in ("enqueued", "dequeued"):
                self.depth[queue], self.bytes[queue] = detail["depth"], detail["bytes"]
            if kind == "enqueued":
                self.on_queue.setdefault(queue, {})[message] = detail["position"]
            elif kind == "dequeued":
                self.on_queue[queue].pop(message)
                self.holder.pop((queue, message), None)
            elif kind == "requeued":
                self.holder.pop((queue, message), None)
            elif kind == "acquired":
                self.holder[queue, message] = self.name(link)
            elif kind == "flow_stopped":
                self.on[queue] = place
            elif kind == "flow_resumed":
                del self.on[queue]
            elif kind == "held":
                self.held.setdefault(message, {})[queue] = time
            elif kind == "let_go":
                del self.held[message][queue]
            elif kind == "message.transfer":
                self.sent[session] += 1
            elif kind == "completed" and message:
                fresh[session] += 1
                self.complete.add(message)
            elif kind == "reported":
                self.known[session] += fresh.pop(session, 0)
            elif kind == "client.block":
                self.blocked[session] = place
            elif kind == "client.unblock":
                del self.blocked[session]
            elif kind == "subscribe":
                self.subscribed[self.name(f"{session}::{link}")] = queue
            elif kind == "delivered":
                self.delivery[session, detail["delivery"]] = (session, queue, message)
            elif kind == "session.completed":
                for number in detail["transfers"]:
                    self.delivery.pop((session, number), None)
            elif kind == "group_owned":
                self.owner[queue, self.groups[place]] = (self.name(link), time)
            elif kind == "group_freed":
                del self.owner[queue, self.groups[place]]

    @staticmethod
    def name(link):
        session, _, tag = link.partition("::")
        return session if session == tag else f"{session}/{tag}"

    def past(self, kind, time=None, **columns):
        """Return the rows of a kind until now, at a time if one is given."""
        return [row for row in self.rows[: self.end + 1] if self.fits(row, kind, time, columns)]

    def later(self, kind, time=None, **columns):
        return [row for row in self.rows[self.end + 1 :] if self.fits(row, kind, time, columns)]

    @staticmethod
    def fits(row, kind, time, columns):
        names = ("time", "kind", "queue", "session", "link", "message", "detail")
        own = dict(zip(names, row, strict=True))
        return row[1] == kind and time in (None, row[0]) and columns.items() <= own.items()

    def holds(self, client, queue=None):
        found = [
            message for (of, message), who in self.holder.items() if who == client and queue in (None, of)
        ]
        return sorted(found)

    def held_of(self, producer):
        return [label for label, queues in self.held.items() if queues and label.startswith(f"{producer}-")]

    def level(self, queue, name):
        return self.workload.queues[queue][f"qpid.flow_{name}"]

    def model(self, name):
        clients = (*self.workload.producers, *self.workload.consumers)
        return next(client for client in clients if client.name == name)


def names_in(text):
    return sorted(re.split(r", | and ", text))


def lists(text, names):
    """Return whether a text names all of some names, or the first and the last of them."""
    first, dots, last = text.partition(", … ")
    if dots:
        shown = first.split(", ")
        return shown == names[: len(shown)] and last == names[-1]
    return names_in(text) == sorted(names)


def blocked(r, name, due):
    # Messages of a constant pace are due one after the other, whatever was sent when.
    time = round((r.sent[name] + 1) * 1_000_000 / r.model(name).rate)
    return (
        name in r.blocked and r.sent[name] - r.known[name] == r.model(name).capacity and abs(due - time) <= 1
    )


def outstanding(r, name, some, most, labels=""):
    is_right = (r.sent[name] - r.known[name], r.model(name).capacity) == (int(some), int(most))
    return is_right and (not labels or lists(labels, r.held_of(name)))


def turned_on(r, queue, time, label, count, level):
    if queue not in r.on:
        return False
    row = r.rows[r.on[queue]]
    is_by = any(one[0] == row[0] for one in r.past("enqueued", row[0], queue=queue, message=label))
    is_over = row[6]["count"] == int(count) > int(level) == r.level(queue, "stop_count")
    return row[0] == us(time) and is_by and is_over


def stays_on(r, queue, count, level):
    return r.depth[queue] == int(count) >= int(level) == r.level(queue, "resume_count") and queue in r.on


def off(r, queue, since, count, level):
    turns = [*r.past("flow_stopped", queue=queue), *r.past("flow_resumed", queue=queue)]
    last = r.past("flow_resumed", queue=queue)[-1:]
    is_since = last and last[0][0] == us(since) if since else not turns
    return bool(is_since) and r.depth[queue] == int(count) <= int(level) and queue not in r.on


def left(r, label, queue, time, rest=""):
    is_gone = bool(r.past("dequeued", us(time), queue=queue, message=label))
    found = re.match(r"(\d+) messages? and (\d+) bytes? were left, fewer than (\d+) messages?", rest)
    if not found:
        return is_gone
    count, size, level = map(int, found.groups())
    turned = r.past("flow_resumed", us(time), queue=queue)
    return is_gone and any(
        row[6] == {"count": count, "size": size} and count < level == r.level(queue, "resume_count")
        for row in turned
    )


def stays(r, label, queue, time):
    """Return whether the queue did not turn with the command that took a message off it."""
    place = next(
        n for n, row in enumerate(r.rows) if row[:3] == (time, "dequeued", queue) and row[5] == label
    )
    rest = r.rows[place + 1 :]
    ends = next((n for n, row in enumerate(rest) if row[1] in COMMANDS), len(rest))
    return not [row for row in rest[:ends] if row[1:3] == ("flow_resumed", queue)]


def works(r, client, label, until):
    ends = [*r.later("dequeued", message=label), *r.later("requeued", message=label)]
    is_held = client in [who for (_, message), who in r.holder.items() if message == label]
    return is_held and (min(row[0] for row in ends) == us(until) if until else not ends)


def window(r, client, held, used, granted):
    own = [of for of in r.delivery.values() if of[0] == client]
    is_right = len(own) == int(used) and r.model(client).prefetch == int(granted)
    return is_right and (held is None or len(r.holds(client)) == int(held))


def credit(r, client, count):
    return r.model(client).prefetch - sum(of[0] == client for of in r.delivery.values()) == int(count)


def available(r, label, queue, before):
    line = r.on_queue.get(queue, {})
    ahead = [m for m, at in line.items() if at < line.get(label, 0) and (queue, m) not in r.holder]
    return label in line and (queue, label) not in r.holder and len(ahead) == int(before or 0)


def was_held(r, label, since, until, queue):
    first, last = (
        r.past("held", us(since), message=label),
        r.past("let_go", us(until), message=label, queue=queue),
    )
    return (
        bool(first and last) and bool(r.past("completed", us(until), message=label)) and label in r.complete
    )


def next_of(r, kind, time, **columns):
    rows = r.later(kind, **columns)
    return rows and rows[0][0] == us(time) if time else not rows


def group_freed(r, labels, client, time):
    return names_in(labels) == [one for one in r.holds(client) if one in names_in(labels)] and bool(
        r.later("group_freed", us(time))
    )


def released_at_once(r, queue, time, count):
    """Count what is let go of between a turn and the next command."""
    kinds = [row[1] for row in r.rows]
    turns = [n for n, row in enumerate(r.rows) if row[:3] == (us(time), "flow_resumed", queue)]
    ends = [next((n for n in range(turn, len(kinds)) if kinds[n] in COMMANDS), len(kinds)) for turn in turns]
    pairs = zip(turns, ends, strict=True)
    return int(count) in [kinds[turn:end].count("let_go") for turn, end in pairs]


def went(r, label, queue):
    rows = [place for place, row in enumerate(r.rows) if row[1] == "enqueued" and row[5] == label]
    turns = [
        row[1]
        for row in r.rows[: rows[0] + 1]
        if row[1] in ("flow_stopped", "flow_resumed") and row[2] == queue
    ]
    return turns[-1:] != ["flow_stopped"] and not r.past("held", message=label)


def refused_group(r, label, client):
    queue = r.model(client).queue
    place = next(n for n, row in enumerate(r.rows) if row[1] == "enqueued" and row[5] == label)
    return r.owner[queue, r.groups[place]][0] != client


T, N, W, L = r"(\d+(?:\.\d+)?) s", r"(\d+)", r"(\w+)", r"([\w-]+)"
CLAIMS = [
    (f"{W} is blocked: a message has been due since {T}, and its window is full",
     lambda r, name, due: blocked(r, name, us(due)) and us(due) <= r.now),
    (f"{W} has {N} of {N} outstanding(?:; {N} transfers? (?:is|are) held: (.+))?",
     lambda r, name, some, most, count, labels: outstanding(r, name, some, most, labels or "")
     and (not count or len(r.held_of(name)) == int(count))),
    (f"{W} waits no longer: a message has been due since {T}, and its window has room again",
     lambda r, name, due: name in r.blocked and us(due) <= r.now
     and r.sent[name] - r.known[name] < r.model(name).capacity),
    (f"{W} has never been granted any message credit",
     lambda r, name: not [row for row in r.past("message.flow", session=name) if row[6]["unit"] == 0]),
    (f"{W} is not blocked(?: since {T})?: {W} has {N} of {N} outstanding",
     lambda r, name, since, _, some, most: name not in r.blocked and outstanding(r, name, some, most)
     and (not since or r.past("client.unblock", session=name)[-1][0] == us(since))),
    (f"{W} is not blocked, as it has nothing to send now: {W} has {N} of {N} outstanding",
     lambda r, name, _, some, most: name not in r.blocked and some == most
     and outstanding(r, name, some, most)),
    (f"Its next message, {L}, has to wait until a transfer is complete; it is sent at {T}",
     lambda r, label, time: next_of(r, "message.transfer", time, message=label)),
    (f"{W} sends its next message, {L}, at {T}: its own decision",
     lambda r, name, label, time: next_of(r, "message.transfer", time, session=name)
     and bool(r.later("message.transfer", us(time), message=label))),
    (f"{W} sends nothing more before the trace ends at {T}",
     lambda r, name, end: us(end) == r.last and not r.later("message.transfer", session=name)),
    (f"The window of {W} had room again at {T}(?:: {W} learned that {L} is complete)?(?:, when .+)?",
     lambda r, name, time, _, label: bool(r.past("client.unblock", us(time), session=name))
     and (not label or label in r.complete)),
    (f"Transfer {L} is not complete: it is held by {W}",
     lambda r, label, queue: set(r.held[label]) == {queue} and label not in r.complete),
    (f"{W} has been ON since {T}: {L} made it {N} messages?, more than its stop threshold of {N}", turned_on),
    (f"{W} stays ON: {N} messages? (?:is|are) not fewer than {N}", stays_on),
    (f"{W} is OFF and has never been ON: {N} messages? (?:is|are) not more than {N}",
     lambda r, queue, count, level: off(r, queue, "", count, level)),
    (f"{W} has been OFF since {T}: {N} messages? (?:is|are) not more than {N}", off),
    (f"{L} left {W} at {T}, when .+?; (\\d+ messages? and .+ messages?)", left),
    (f"{L} itself left {W} at {T}, when .+; {W} stayed ON",
     lambda r, label, queue, time, _: stays(r, label, queue, us(time))),
    (f"{L} left {W} at {T}, when [^;]+", left),
    (f"The (stop|resume) threshold of {W} is {N} messages?: it is declared with qpid.flow_.+_count",
     lambda r, verb, queue, count: r.level(queue, f"{verb}_count") == int(count)),
    (f"{W} is busy: it holds {N} messages? of {W}",
     lambda r, name, count, queue: len(r.holds(name, queue)) == int(count)),
    (f"{W} holds {N} messages? of {W}: (.+)",
     lambda r, name, count, queue, labels: lists(labels, r.holds(name, queue))
     and len(r.holds(name, queue)) == int(count)),
    (f"{W} is an idle consumer of {W}", lambda r, name, queue: not r.holds(name, queue)),
    (f"{W} works on {L} until {T}, when (?:it accepts it: its own decision|.+)", works),
    (f"{W} works on {L}, which is not settled before the trace ends at {T}",
     lambda r, name, label, end: works(r, name, label, "") and us(end) == r.last),
    (f"{W} has no message credit: {N} of {N} messages of its window are delivered and not completed",
     lambda r, name, used, most: window(r, name, None, used, most)),
    (f"{W} has no message credit: it holds {N} of {N} messages of its window, and {N} more (?:is|are) .+",
     lambda r, name, held, most, more: window(r, name, held, int(held) + int(more), most)),
    (f"{W} has nothing left to settle, but only session.completed moves its window on; it sends that at {T}",
     lambda r, name, time: not r.holds(name) and next_of(r, "session.completed", time, session=name)),
    (f"{W} has credit for {N} messages?, but {W} has no message available(?:: its {N} messages? .+ already)?",
     lambda r, name, count, queue, taken: credit(r, name, count)
     and len(r.on_queue.get(queue, ())) == int(taken or 0)
     and all((queue, label) in r.holder for label in r.on_queue.get(queue, ()))),
    (f"{W} has credit for {N} messages?, but may have none of the {N} messages available",
     lambda r, name, count, free: credit(r, name, count)
     and sum((r.model(name).queue, m) not in r.holder for m in r.on_queue[r.model(name).queue]) == int(free)),
    (f"{W} has credit for {N} messages?, but may not have the only message available",
     lambda r, name, count: credit(r, name, count)
     and sum((r.model(name).queue, m) not in r.holder for m in r.on_queue[r.model(name).queue]) == 1),
    (f"{W} has credit for {N} messages? and {L} is free for it, but nothing woke it",
     lambda r, name, count, label: credit(r, name, count)
     and (r.model(name).queue, label) not in r.holder and label in r.on_queue[r.model(name).queue]),
    (f"{W} gets {L} at {T}, when .+",
     lambda r, name, label, time: next_of(r, "delivered", time, session=name)
     and bool(r.later("delivered", us(time), session=name, message=label))),
    (f"Nothing wakes {W} before the trace ends at {T}",
     lambda r, name, end: us(end) == r.last and not r.later("delivered", session=name)),
    (f"{W} is in the waiting list of {W}(?: since {T})?; .+",
     lambda r, name, queue, since: r.subscribed[name] == queue
     and (not since or bool(r.past("idle", us(since), queue=queue)))),
    (f"A wake-up took {W} off the waiting list of {W}, then went to another instead",
     lambda r, name, queue: r.subscribed[name] == queue),
    (f"{W} is empty; the next, {L}, comes at {T}",
     lambda r, queue, label, time: not r.depth[queue] and next_of(r, "enqueued", time, queue=queue)
     and bool(r.later("enqueued", us(time), message=label))),
    (f"{W} is empty; none comes before the trace ends at {T}",
     lambda r, queue, end: not r.depth[queue] and us(end) == r.last and not r.later("enqueued", queue=queue)),
    (f"{W} has no consumer until {W} subscribes at {T}, by its own decision",
     lambda r, queue, name, time: queue not in r.subscribed.values()
     and next_of(r, "subscribe", time, queue=queue)),
    (f"{W} has no consumer, and gets none before the trace ends at {T}",
     lambda r, queue, end: us(end) == r.last and not r.past("subscribe", queue=queue)
     and not r.later("subscribe", queue=queue)),
    (f"{W} has not subscribed yet; it does at {T}, by its own decision",
     lambda r, name, time: name not in r.subscribed and next_of(r, "subscribe", time, session=name)),
    (f"{W} does not subscribe before the trace ends at {T}",
     lambda r, name, end: name not in r.subscribed and us(end) == r.last
     and not r.later("subscribe", session=name)),
    (f"{W} has (?:\\d+ more consumers?)", lambda r, queue: queue in r.subscribed.values()),
    (f"{L} is on {W}, acquired by {W} since {T}",
     lambda r, label, queue, name, time: r.holder[queue, label] == name
     and r.past("acquired", queue=queue, message=label)[-1][0] == us(time)),
    (f"{L} is on {W}, available (?:and first in line|behind {N} others?)", available),
    (f"{L} was released at {T}, when .+; it took its old place",
     lambda r, label, time: r.past("requeued", message=label)[-1][0] == us(time)),
    (f"{L} has not been sent yet; {W} sends it at {T}, by its own decision",
     lambda r, label, name, time: next_of(r, "message.transfer", time, session=name, message=label)),
    (f"Transfer {L} has been complete since {T}: nothing withheld it",
     lambda r, label, time: r.past("completed", message=label)[0][0] == us(time)
     and not r.past("held", message=label)),
    (f"Transfer {L} was held from {T} and has been complete since {T}, when {W} let it go", was_held),
    (f"{W} turned OFF at {T} and released {N} transfers? at once", released_at_once),
    (f"{L} went to {W}, which was not ON then", went),
    (f"{L} went to {W}, without flow control", lambda r, label, queue: not r.past("held", message=label)),
    (f"{W} has {N} messages? and no flow control",
     lambda r, queue, count: r.depth[queue] == int(count) and queue not in r.on),
    (f"{W} has no flow control: both its stop thresholds are 0", lambda r, queue: queue not in r.on),
    (f"The stop threshold of {W} is 0 (?:message|byte)s: .+", lambda r, queue: queue not in r.on),
    (f"Group {W} of {W} has belonged to {W} since {T}, when it acquired {L}",
     lambda r, group, queue, name, time, label: r.owner[queue, group] == (name, us(time))
     and bool(r.past("acquired", us(time), queue=queue, message=label))),
    (f"{W} holds (.+) of it, and owns it until none is left acquired: that is at {T}, when .+",
     lambda r, name, labels, time: group_freed(r, labels, name, time)),
    (f"{W} holds (.+) of it, and owns it until none is left acquired; the trace, which ends at {T}, .+",
     lambda r, name, labels, end: set(names_in(labels)) <= set(r.holds(name)) and us(end) == r.last),
    (f"Group {W} of {W} has no owner: (?:none of its {N} messages|its only message) is(?: not)? acquired",
     lambda r, group, queue, count: (queue, group) not in r.owner),
    (f"Group {W} was {W}'s until {T}, when .+",
     lambda r, group, name, time: bool(r.past("group_freed", us(time)))),
    (f"Group {W} became free at {T}, when .+", lambda r, group, time: bool(r.past("group_freed", us(time)))),
    (f"Group {W} has no message on {W} and so does not exist: the last, {L}, left at {T}, when .+",
     lambda r, group, queue, label, time: r.past("dequeued", queue=queue, message=label)[-1][0] == us(time)),
    (f"Group {W} has no message on {W} yet: the first, {L}, comes at {T}",
     lambda r, group, queue, label, time: next_of(r, "enqueued", time, queue=queue, message=label)),
    (f"{L} is of group {W}, which is not {W}'s", lambda r, label, group, name: refused_group(r, label, name)),
    (f"The cursor of {W} has passed {L}; .+",
     lambda r, name, label: label in r.on_queue[r.model(name).queue]
     and (r.model(name).queue, label) not in r.holder),
]  # fmt: skip
"""What explain can say of a producer, a transfer, a queue, a message, a group and a consumer; and what makes
it true. What it says of refusals, losses and alternatives is held to its expected text, in `explained`."""

RARE = ("wake-up took", "cursor of", "gets none before")
"""What these runs seldom lead to."""

WORDS = [(re.compile(rf"{pattern}\."), holds) for pattern, holds in CLAIMS]


def workload_of(seed):
    """Return a small workload with flow control or groups, whose producers send at a constant pace."""
    chance = random.Random(seed)
    is_grouped, stop = chance.random() < 0.5, chance.randint(2, 8)
    groups = {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1} if is_grouped else {}
    levels = {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": chance.randint(1, stop)}
    if chance.random() < 0.25:
        levels = {"qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0}
    producers = [
        Producer(
            f"p{n}", ("", "q"), rate=chance.choice([20, 50, 125]), capacity=chance.randint(1, 6), size=50,
            arrival="const", groups=(3, 1.0) if is_grouped else None, seed=seed + n,
        )
        for n in range(chance.randint(1, 2))
    ]  # fmt: skip
    consumers = [
        Consumer(
            f"c{n}", "q", prefetch=chance.randint(1, 3),
            service=("const", chance.choice([0.01, 0.05, 0.3, 30])),
            start=chance.choice([0, 0, 0.1, 0.5, 30]), release=chance.choice([0, 0.3]), seed=seed + n,
        )
        for n in range(chance.randint(0, 5))
    ]  # fmt: skip
    arguments = {"qpid.max_size": 0, **levels, **groups}
    return Workload("w", 1, {"q": arguments}, (), tuple(producers), tuple(consumers))


def rows_of(trace):
    """Return the rows as a reader wants them, their details decoded."""
    columns = (trace.time, trace.kind, trace.queue, trace.session, trace.link, trace.message)
    details = [json.loads(detail or "{}") for detail in trace.detail]
    return list(zip(*columns, details, strict=True))


def claims_of(seed):
    """Yield each sentence of many explanations of a run, with the reader of its instant."""
    chance, workload = random.Random(seed), workload_of(seed)
    trace = trace_of(simulate(workload, message_limit=60))
    timeline = Timeline(trace)
    known, rows, groups = _Subjects(trace, timeline.index), rows_of(trace), list(trace.group)
    for row in [len(trace) - 1, *(chance.randrange(10, len(trace)) for _ in range(4))]:
        reader = Reader(rows, groups, row, workload)
        for kind in KINDS:
            names = list(known.names(kind))
            for name in chance.sample(names, min(len(names), 8)):
                for link in explain(timeline, row, f"{kind}:{name}").links:
                    yield reader, link


def fault_of(reader, link):
    """Return what is wrong with a sentence; empty if it is true."""
    times = [us(found) for found in re.findall(r"(?<![\w-])(\d+(?:\.\d+)?) s\b", link.text)]
    if any(time > reader.last for time in times):
        return "tells of a time after the trace"
    if reader.rows[link.seq][0] != link.time:
        return "cites a row of another time"
    for pattern, holds in WORDS:
        found = pattern.fullmatch(link.text)
        if found:
            try:
                return "" if holds(reader, *found.groups()) else "is not what the rows say"
            except (KeyError, IndexError, StopIteration, ValueError) as error:
                return f"names what is not there: {error!r}"
    return "is of a kind that nothing is known of"


SEEDS = range(40)


@cache
def sentences_of(seed):
    """Return each sentence of many explanations of a run with its fault; made once for both tests."""
    return [
        (link.text, fault and f"at row {reader.end} ({reader.now} us), {link.text} It {fault}")
        for reader, link in claims_of(seed)
        for fault in [fault_of(reader, link)]
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_sentence_is_what_the_rows_say(seed):
    wrong = {fault for _, fault in sentences_of(seed) if fault}
    assert not wrong, "\n".join(sorted(wrong))


def test_every_kind_of_sentence_was_said():
    said = {text for seed in SEEDS for text, _ in sentences_of(seed)}
    kinds = [pattern for pattern, _ in WORDS if not any(words in pattern.pattern for words in RARE)]
    assert [pattern.pattern for pattern in kinds if not any(map(pattern.fullmatch, said))] == []
