"""Plausible wrong answers to every exercise, as learners write them, and what the check should say of each.

They are written on their own, not taken from the misconceptions that the exercises list: a check has to know
the misunderstanding from what comes of the code, not from the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Wrong = dict[str, dict[str, Callable[..., Any]]]


def states_with_equal(depths, stop, resume):
    state, out = "OFF", []
    for depth in depths:
        if depth >= stop:
            state = "ON"
        elif depth <= resume:
            state = "OFF"
        out.append(state)
    return out


def states_from_on(depths, stop, resume):
    on, out = True, []
    for depth in depths:
        on = depth > stop or (on and depth >= resume)
        out.append("ON" if on else "OFF")
    return out


def steps(changes):
    depth = 0
    for change in changes:
        for _ in range(abs(change)):
            before = depth
            depth += 1 if change > 0 else -1
            yield before, depth


def steps_above(changes, stop, resume):
    depth, number = 0, 0
    for change in changes:
        depth += change
        if depth > stop:
            number += 1
    return number


def both_ways(changes, stop, resume):
    on, number = False, 0
    for _, depth in steps(changes):
        now = depth > stop or (on and depth >= resume)
        number += now != on
        on = now
    return number


def two_units(on_if, off_if):
    def answer(levels, stop, resume):
        state, out = "OFF", []
        for n, b in levels:
            if state == "OFF":
                state = "ON" if on_if(n > stop[0], b > stop[1]) else "OFF"
            elif off_if(n < resume[0], b < resume[1]):
                state = "OFF"
            out.append(state)
        return out

    return answer


def two_units_equal(levels, stop, resume):
    on, out = False, []
    for n, b in levels:
        if not on:
            on = n >= stop[0] or b >= stop[1]
        else:
            on = not (n <= resume[0] and b <= resume[1])
        out.append("ON" if on else "OFF")
    return out


def first_hole(sends, stops):
    depth = {}
    for number, queue in enumerate(sends):
        depth[queue] = depth.get(queue, 0) + 1
        if depth[queue] > stops[queue]:
            return list(range(number))
    return list(range(len(sends)))


def one_held_each(sends, stops):
    depth, out = {}, []
    for number, queue in enumerate(sends):
        depth[queue] = depth.get(queue, 0) + 1
        if depth[queue] != stops[queue] + 1:
            out.append(number)
    return out


def too_strict(sends, stops):
    depth, out = {}, []
    for number, queue in enumerate(sends):
        depth[queue] = depth.get(queue, 0) + 1
        if not depth[queue] >= stops[queue]:
            out.append(number)
    return out


def purges(is_complete):
    def answer(stops, messages, purges):
        rows = []
        for done in range(len(purges) + 1):
            gone = purges[:done]
            rows.append([n for n in range(1, messages + 1) if is_complete(stops, n, gone)])
        return rows

    return answer


def group_of(label):
    return label.split("-")[0]


def whole_group(labels, first_prefetch, second_prefetch):
    groups = {group_of(label) for label in labels[:first_prefetch]}
    return (
        [label for label in labels if group_of(label) in groups],
        [label for label in labels if group_of(label) not in groups][:second_prefetch],
    )


def one_group(labels, first_prefetch, second_prefetch):
    group = group_of(labels[0])
    mine = [label for label in labels if group_of(label) == group]
    others = [label for label in labels if label not in mine]
    return mine[:first_prefetch], others[:second_prefetch]


def next_gets(give_back, needs_all=True, at_end=False):
    def answer(held, actions, more):
        if needs_all and len(actions) < held:
            return []
        back = [f"A-{n + 1}" for n, action in enumerate(actions) if action in give_back]
        new = [f"A-{held + n + 1}" for n in range(more)]
        return new + back if at_end else back + new

    return answer


def release_one(consumer, held, target):
    consumer.release(held[0])
    for label in held[1:]:
        consumer.accept(label)


def idle(wakes):
    def answer(steps):
        queue, got, owned = ["A-1", "A-2"], [], True
        for step in steps:
            if step == "owner accepts" or step == "owner rejects":
                queue.remove("A-1")
                owned = False
            elif step == "owner releases":
                owned = False
            else:
                queue.append(step[:3])
            if any(word in step for word in wakes):
                new = [m for m in queue if m[0] != "A" or not owned]
                got.extend(new)
                queue = [m for m in queue if m not in new]
        return got

    return answer


def blocks(messages, consumers):
    size = (messages + consumers - 1) // consumers
    numbers = list(range(messages))
    return [numbers[c * size : c * size + size] for c in range(consumers)]


def ring_by_age(limit, priorities):
    left = list(range(len(priorities)))[-limit:]
    return sorted(left, key=lambda n: -priorities[n])


def ring_always_lowest(limit, priorities):
    queue = []
    for n in range(len(priorities)):
        if len(queue) >= limit:
            queue.remove(min(queue, key=priorities.__getitem__))
        queue.append(n)
    return sorted(queue, key=lambda n: -priorities[n])


def ring_strictly(limit, priorities):
    queue = []
    for n, new in enumerate(priorities):
        if len(queue) < limit:
            queue.append(n)
            continue
        worst = min(queue, key=priorities.__getitem__)
        if priorities[worst] < new:
            queue.remove(worst)
            queue.append(n)
    return sorted(queue, key=lambda n: -priorities[n])


def last_values_in_room(limit, keys):
    queue = []
    for key in keys:
        if key in queue:
            queue.remove(key)
        queue.append(key)
        queue = queue[-limit:]
    return queue


def ring_owner_keeps(limit, labels, fetched):
    owned = {group_of(label) for label in labels[:fetched]}
    left = labels[max(fetched, len(labels) - limit) :]
    return next((label for label in left if group_of(label) not in owned), None)


def ring_spares_acquired(limit, labels, fetched):
    owned = {group_of(label) for label in labels[:fetched]}
    left = labels[fetched + len(labels) - limit :]
    return next((label for label in left if group_of(label) not in owned), None)


def default_stop(limit):
    return round(limit * 0.8 + 1e-9)


def history(design, limit, threshold, sends):
    refused = 506 if sends > limit else 0
    depth = min(limit, sends)
    held = {"pre-feature": 0, "overflow-list": sends - depth}
    return depth, held.get(design, max(0, depth - threshold)), refused, refused


def proposal_is_shipped(design, limit, threshold, sends):
    depth, held, code, _ = history(design, limit, threshold, sends)
    return depth, held, 0 if design == "overflow-list" else code


def no_overflow_ever(design, limit, threshold, sends):
    depth, held, code, _ = history(design, limit, threshold, sends)
    if design == "watermark":
        held = max(0, depth - threshold + 1)
    return depth, held, code if design == "pre-feature" else 0


def all_throw(design, limit, threshold, sends):
    depth, held, code, _ = history(design, limit, threshold, sends)
    if design == "watermark":
        held = max(0, depth - threshold + 1)
    return depth, held, code


def fits(sends, limits):
    return [n for n in range(len(sends)) if sends[: n + 1].count(sends[n]) <= limits[sends[n]]]


def one_more(sends, limits):
    ok = fits(sends, limits)
    first = min((n for n in range(len(sends)) if n not in ok), default=None)
    return list(range(len(sends))) if first is None else list(range(first + 1))


def pair(broker, **queue):
    return lambda limit, manual: {
        "broker": broker,
        "queue": {"qpid.max_count": limit, **({"qpid.flow_stop_count": manual} if not queue else {})},
    }


WRONG: Wrong = {
    "on_and_off": {
        "reached is enough": lambda limit, stop, resume: [stop, resume],
        "ON is exceeded, OFF is reached": lambda limit, stop, resume: (1 + stop, resume),
        "one threshold for both ways": lambda limit, stop, resume: (stop + 1, stop),
        "it is the limit that stops": lambda limit, stop, resume: (limit, resume - 1),
    },
    "flow_states": {
        "no memory": lambda depths, stop, resume: ["OFF" if d <= stop else "ON" for d in depths],
        "ON from resume upwards": lambda depths, stop, resume: [
            "OFF" if d < resume else "ON" for d in depths
        ],
        "reached is enough": states_with_equal,
        "it starts ON": states_from_on,
    },
    "activations": {
        "every message above stop": lambda changes, stop, resume: sum(
            after > before and after > stop for before, after in steps(changes)
        ),
        "each time stop is passed": lambda changes, stop, resume: sum(
            before == stop and after == stop + 1 for before, after in steps(changes)
        ),
        "both ways count": both_ways,
        "every step that ends above stop": steps_above,
    },
    "message_bytes": {
        "content only": lambda exchange, routing_key, content: content,
        "the key and the content": lambda exchange, routing_key, content: content + len(routing_key),
        "the names, but nothing around them": lambda exchange, routing_key, content: (
            len(exchange + routing_key) + content
        ),
        "the exchange is not recorded": lambda exchange, routing_key, content: (
            10 + len(routing_key) + content
        ),
    },
    "states_both": {
        "both stop thresholds have to be passed": two_units(lambda n, b: n and b, lambda n, b: n and b),
        "either resume threshold will do": two_units(lambda n, b: n or b, lambda n, b: n or b),
        "reached is enough": two_units_equal,
    },
    "last_left": {
        "what is switched off has no say": lambda max_count, resume_size: -(-resume_size // 100) - 1,
        "messages alone decide": lambda max_count, resume_size: int(0.7 * max_count) - 1,
        "70 % is reached": lambda max_count, resume_size: min(int(0.7 * max_count), (resume_size - 1) // 100),
    },
    "completed": {
        "completions come in order": first_hole,
        "only the first above is held": one_held_each,
        "reached is enough": too_strict,
    },
    "completed_after_purges": {
        "one queue letting go is enough": purges(
            lambda stops, n, gone: all(n <= s for s in stops.values()) or any(n > stops[q] for q in gone)
        ),
        "all queues or nothing": purges(
            lambda stops, n, gone: all(n <= s for s in stops.values()) or len(gone) == len(stops)
        ),
        "the first queue decides": purges(
            lambda stops, n, gone: n <= list(stops.values())[0] or list(stops)[0] in gone
        ),
    },
    "released": {
        "nothing before OFF": lambda stop, resume, sent, taken: 0 if sent - taken >= resume else sent - stop,
        "one out, one completed": lambda stop, resume, sent, taken: min(sent - stop, taken),
        "OFF frees only those that left": lambda stop, resume, sent, taken: (
            taken - stop if taken > stop else 0
        ),
    },
    "worst_depth": {
        "the 101st comes on top": lambda stop, capacities: stop + sum(capacities) + 1,
        "producers stop at once": lambda stop, capacities: stop + 1,
        "only the largest window counts": lambda stop, capacities: max(stop + c for c in capacities),
    },
    "after_the_stall": {
        "the 101st comes on top": lambda stop, capacities: (
            1 + stop + sum(capacities),
            2 + sum(capacities),
            sum(capacities) + stop - 1,
            2,
        ),
        "producers stop at once": lambda stop, capacities: [stop + 1, 2, stop + 1, 2],
        "back at the threshold is enough": lambda stop, capacities: (
            stop + sum(capacities),
            sum(capacities),
            stop + sum(capacities),
            2,
        ),
        "the producers stay quiet": lambda stop, capacities: (
            stop + sum(capacities),
            sum(capacities) + 1,
            stop - 1,
            1,
        ),
        "the same peak again": lambda stop, capacities: (
            stop + sum(capacities),
            sum(capacities) + 1,
            stop + sum(capacities),
            2,
        ),
    },
    "cpp_depth": {
        "the ideal window": lambda stop, capacity: capacity + stop,
        "the broker stops the client": lambda stop, capacity: stop + 1,
        "a sync at stop waits already": lambda stop, capacity: (stop + capacity - 1) // capacity * capacity,
    },
    "overflow": {
        "flow control prevents it": lambda limit, stop, sends: (
            min(limit, sends),
            "ON" if min(limit, sends) > stop else "OFF",
            0,
            True,
        ),
        "only that message is refused": lambda limit, stop, sends: (
            min(limit, sends),
            "ON" if min(limit, sends) > stop else "OFF",
            506 * (sends > limit),
            True,
        ),
        "a full queue is ON": lambda limit, stop, sends: (
            min(limit, sends),
            "ON" if min(limit, sends) > stop or sends >= limit else "OFF",
            506 * (sends > limit),
            sends <= limit,
        ),
        "the limit is refused already": lambda limit, stop, sends: (
            (sends, "ON" if sends > stop else "OFF", 0, True)
            if sends < limit
            else (limit - 1, "ON" if limit - 1 > stop else "OFF", 506, False)
        ),
    },
    "default_thresholds": {
        "both are rounded": lambda limit, stop, resume: (
            int(limit * stop / 100 + 0.5),
            int(limit * resume / 100 + 0.5),
        ),
        "both are cut off": lambda limit, stop, resume: (limit * stop // 100, limit * resume // 100),
        "resume is a share of stop": lambda limit, stop, resume: (
            int(limit * stop / 100 + 0.5),
            int(int(limit * stop / 100 + 0.5) * resume / 100),
        ),
        "exact arithmetic": lambda limit, stop, resume: ((limit * stop + 50) // 100, limit * resume // 100),
    },
    "declare_arguments": {
        "the tool's names are the broker's keys": lambda limit, stop, resume: {
            "--max-queue-count": limit,
            "--flow-stop-count": stop,
            "--flow-resume-count": resume,
        },
        "a hyphen is as good as an underscore": lambda limit, stop, resume: {
            "qpid.max_count": limit,
            "qpid.flow-stop-count": stop,
            "qpid.flow-resume-count": resume,
        },
        "bytes instead of messages": lambda limit, stop, resume: {
            "qpid.max_count": limit,
            "qpid.flow_stop_size": stop,
            "qpid.flow_resume_size": resume,
        },
        "the limit sets itself": lambda limit, stop, resume: {
            "qpid.flow_resume_count": resume,
            "qpid.flow_stop_count": stop,
        },
    },
    "switched_off": {
        "one zero is enough": lambda limit, volume: {
            "qpid.max_count": limit,
            "qpid.max_size": volume,
            "qpid.flow_stop_count": 0,
            "qpid.flow_resume_count": 0,
        },
        "zero bytes is enough": lambda limit, volume: {
            "qpid.flow_stop_size": 0,
            "qpid.max_count": limit,
            "qpid.max_size": volume,
        },
        "zero for resume": lambda limit, volume: {
            "qpid.max_count": limit,
            "qpid.max_size": volume,
            "qpid.flow_resume_count": 0,
        },
        "a ring never stops anybody": lambda limit, volume: {
            "qpid.max_count": limit,
            "qpid.policy_type": "ring",
        },
    },
    "broker_without_defaults": {
        "zero for stop is enough": pair({"default_flow_stop_threshold": 0}),
        "zero for resume is enough": pair({"default_flow_resume_threshold": 0}),
        "off is off for every queue": pair(
            {"default_flow_stop_threshold": 0, "default_flow_resume_threshold": 0}, none=True
        ),
        "the limit is the switch": pair({"default_queue_limit": 0}),
    },
    "is_accepted": {
        "a value not given does not take part": lambda arguments: (
            not arguments["flow_stop_count"]
            or arguments.get("flow_resume_count", 0)
            <= arguments["flow_stop_count"]
            <= arguments.get("max_count", 10**6)
        ),
        "stop has to be less than the limit": lambda arguments: (
            arguments["flow_stop_count"] == 0
            or arguments.get("flow_resume_count", int(arguments.get("max_count", 0) * 0.7))
            <= arguments["flow_stop_count"]
            < arguments.get("max_count", 10**6)
        ),
        "a zero stop is checked too": lambda arguments: (
            arguments.get("flow_resume_count", int(arguments.get("max_count", 0) * 0.7))
            <= arguments["flow_stop_count"]
            <= arguments.get("max_count", 10**6)
        ),
    },
    "can_sync": {
        "a sync asks about the last transfer": lambda stops, sends: (
            not sends.count(sends[-1]) > stops[sends[-1]]
        ),
        "only if all queues are stopped": lambda stops, sends: any(
            sends.count(q) <= stops[q] for q in set(sends)
        ),
        "the message is there, so it is done": lambda stops, sends: bool(sends),
    },
    "slowest_decides": {
        "the fast ones go on": lambda slow_stop, capacity, subscribers: (
            slow_stop + capacity,
            (slow_stop + capacity) * 10,
        ),
        "each subscriber has a window of its own": lambda slow_stop, capacity, subscribers: (
            slow_stop + capacity,
            (subscribers - 1) * (slow_stop + capacity),
        ),
        "the 101st comes on top": lambda slow_stop, capacity, subscribers: [slow_stop + capacity + 1] * 2,
        "the broker stops the producer": lambda slow_stop, capacity, subscribers: [slow_stop + 1] * 2,
        "it stops at the threshold": lambda slow_stop, capacity, subscribers: (slow_stop, slow_stop),
    },
    "session_plan": {
        "one session for all": lambda queues: dict.fromkeys(queues, "s"),
        "two sessions are enough": lambda queues: {queue: "ab"[n % 2] for n, queue in enumerate(queues)},
        "only the first queue is a problem": lambda queues: {
            queue: "own" if queue == queues[0] else "shared" for queue in queues
        },
    },
    "second_gets": {
        "first come, first served": lambda labels, first_accepts: [*labels, None][1],
        "a blocked group blocks the queue": lambda labels, first_accepts: (
            None
            if len(labels) < 2 or (not first_accepts and group_of(labels[0]) == group_of(labels[1]))
            else labels[1]
        ),
        "once an owner, always the owner": lambda labels, first_accepts: next(
            (label for label in labels if group_of(label) != group_of(labels[0])), None
        ),
    },
    "shares": {
        "an owner gets the whole group": whole_group,
        "groups do not matter to prefetch": lambda labels, first_prefetch, second_prefetch: (
            labels[:first_prefetch],
            labels[first_prefetch:][:second_prefetch],
        ),
        "one group for each consumer": one_group,
    },
    "next_gets": {
        "a release goes to the end": next_gets({"release"}, at_end=True),
        "the first accept frees the group": next_gets({"release"}, needs_all=False),
        "what is rejected comes back": next_gets({"release", "reject"}),
        "what is released is lost": next_gets(set()),
    },
    "give_up": {
        "release this one, accept the rest": release_one,
        "accept it all the same": lambda consumer, held, target: [consumer.accept(label) for label in held],
        "release this one and keep the rest": lambda consumer, held, target: consumer.release(held[0]),
        "reject everything": lambda consumer, held, target: [consumer.reject(label) for label in held],
        "nothing is told to the broker": lambda consumer, held, target: len(held),
    },
    "group_id": {
        "no identifier, no group": lambda headers, key, default: str(headers.get(key, "")),
        "only text counts": lambda headers, key, default: (
            (headers.get(key) if isinstance(headers.get(key), str) else "") or default
        ),
        "everything has a text": lambda headers, key, default: str(headers.get(key, "")) or default,
    },
    "group_arguments": {
        "the key is enough": lambda header: {"qpid.group_header_key": header},
        "shared is enough": lambda header: {"qpid.shared_msg_group": True},
        "the tool's names are the broker's keys": lambda header: {
            "--group-header": header,
            "--shared-groups": 1,
        },
        "the header's name is the key": lambda header: {
            f"qpid.{header}": True,
            "qpid.shared_msg_group": True,
        },
    },
    "idle_gets": {
        "an accept wakes the others": idle(("owner", "arrives")),
        "only arrivals wake": idle(("arrives",)),
        "an idle consumer never gets them": lambda steps: [s[:3] for s in steps if s.startswith("B")],
    },
    "turns": {
        "in blocks": blocks,
        "the first takes all it can hold": lambda messages, consumers: (
            [list(range(messages))] + [[]] * (consumers - 1)
        ),
        "everybody gets everything": lambda messages, consumers: [list(range(messages))] * consumers,
    },
    "ring_priorities": {
        "the oldest has to go": ring_by_age,
        "the lowest has to go, whatever comes": ring_always_lowest,
        "the new one has to be strictly higher": ring_strictly,
    },
    "ring_last_values": {
        "a replacement needs no room": last_values_in_room,
        "a ring of everything": lambda limit, keys: keys[max(0, len(keys) - limit) :],
        "first values": lambda limit, keys: sorted(set(keys), key=keys.index)[:limit],
    },
    "ring_group": {
        "an owner keeps its group": ring_owner_keeps,
        "only waiting messages are evicted": ring_spares_acquired,
        "there are no groups on a ring": lambda limit, labels, fetched: labels[-limit:][
            max(0, fetched - (len(labels) - limit))
        ],
    },
    "lvq_at_stop": {
        "a replacement changes nothing": lambda stop, replacements: (stop, "OFF", 0, 0),
        "back at stop is OFF again": lambda stop, replacements: [stop, "OFF", replacements, 0],
        "replacements pile up": lambda stop, replacements: (
            stop + replacements,
            "ON" if replacements else "OFF",
            min(1, replacements),
            replacements,
        ),
        "each replacement waits": lambda stop, replacements: (
            stop,
            "ON" if replacements else "OFF",
            min(1, replacements),
            replacements,
        ),
    },
    "self_destruct": {
        "it starts again with the last message": lambda limit, sends: (
            True,
            sends if sends <= limit else sends - limit,
            max(0, sends - default_stop(limit)) if sends <= limit else 0,
        ),
        "the producer waits for ever": lambda limit, sends: (
            sends <= limit,
            sends * (sends <= limit),
            max(0, min(limit, sends) - default_stop(limit)),
        ),
        "no flow control on such a queue": lambda limit, sends: (sends <= limit, sends * (sends <= limit), 0),
    },
    "after_purge": {
        "a purge removes everything": lambda stop, resume, sent, fetched: [0, "OFF", 0],
        "what is fetched no longer counts": lambda stop, resume, sent, fetched: (fetched, "OFF", 0),
        "reached is enough": lambda stop, resume, sent, fetched: (
            (fetched, "ON", max(fetched - stop, 0))
            if sent > stop and fetched > resume
            else (fetched, "OFF", 0)
        ),
    },
    "after_delete": {
        "the messages are lost": lambda stop, sent, fetched: (0, 0, True),
        "only waiting messages move on": lambda stop, sent, fetched: (sent - fetched, 0, True),
        "the producer waits for ever": lambda stop, sent, fetched: (sent, max(sent - stop, 0), True),
    },
    "after_move": {
        "what finds no room stays": lambda messages, limit, already: (
            messages - min(messages, limit - already),
            already + min(messages, limit - already),
            0,
        ),
        "all or nothing": lambda messages, limit, already: (
            (messages, already, 0) if messages + already > limit else (0, messages + already, 0)
        ),
        "a move is exempt from limits": lambda messages, limit, already: (0, messages + already, 0),
    },
    "survives": {
        "only the last consumer's end deletes it": lambda messages, purged, read: not read,
        "any purge deletes it": lambda messages, purged, read: not purged and not read,
        "messages keep it alive": lambda messages, purged, read: (
            messages - purged > 0 if messages else not read
        ),
    },
    "transaction": {
        "what fits is kept": lambda limit, stop, sends: (
            506 if sends > limit else 0,
            min(limit, sends),
            "ON" if min(limit, sends) > stop else "OFF",
            False,
        ),
        "it fails with the limit's own error": lambda limit, stop, sends: (
            (0, sends, "ON" if sends > stop else "OFF", False) if sends <= limit else (506, 0, "OFF", False)
        ),
        "its transfers are held": lambda limit, stop, sends: (
            (0, sends, "ON" if sends > stop else "OFF", sends > stop)
            if sends <= limit
            else (541, 0, "OFF", False)
        ),
    },
    "what_happens": {
        "the proposal is what shipped": proposal_is_shipped,
        "flow control prevents overflow": no_overflow_ever,
        "they all throw the producer out": all_throw,
    },
    "on_the_queues": {
        "other queues go on": fits,
        "the list empties itself": lambda sends, limits: [n for n, _ in enumerate(sends)],
        "one message overshoots": one_more,
    },
    "safe_stop": {
        "80 % is always right": lambda limit, capacities: int(0.8 * limit),
        "room for the largest window": lambda limit, capacities: limit - sorted(capacities)[-1],
        "producers stop at once": lambda limit, capacities: -1 + limit,
        "stop at the limit": lambda limit, capacities: limit,
        "the lower the safer": lambda limit, capacities: 2,
    },
    "share_the_room": {
        "everybody gets all the room": lambda limit, stop, producers: [
            limit - stop for _ in range(producers)
        ],
        "50 is the default, so it is right": lambda limit, stop, producers: (50,) * producers,
        "one at a time is safest": lambda limit, stop, producers: [1 for _ in range(producers)],
        "round up": lambda limit, stop, producers: [
            (limit - stop + producers - 1) // producers for _ in range(producers)
        ],
    },
    "choose_thresholds": {
        "stop as late as possible": lambda limit, capacities, burst_rate: (limit, limit - 10),
        "80 and 70 % will do": lambda limit, capacities, burst_rate: (int(limit * 0.8), int(limit * 0.7)),
        "stop early, to be safe": lambda limit, capacities, burst_rate: [limit // 10, limit // 20],
        "drain it before going on": lambda limit, capacities, burst_rate: (limit - sum(capacities), 1),
    },
    "how_many_parts": {
        "each queue for itself": lambda touches: len({queue for _, queue in touches}),
        "each client for itself": lambda touches: len(dict(touches)),
        "only neighbours count": lambda touches: len(
            {tuple(sorted({q for c, q in touches if c == client})) for client, _ in touches}
        ),
    },
    "busiest_worker": {
        "the work is shared evenly": lambda events, workers: (
            sum(events.values()) // workers + (sum(events.values()) % workers > 0)
        ),
        "the largest component is all": lambda events, workers: sorted(events.values())[-1],
        "components are dealt out like cards": lambda events, workers: max(
            sum(size for n, size in enumerate(events.values()) if n % workers == worker)
            for worker in range(workers)
        ),
    },
    "waited": {
        "only what has ended counts": lambda holds, log_end: sum((e or b) - b for b, e in holds),
        "time counts once": lambda holds, log_end: sum(
            any(b <= t < (log_end if e is None else e) for b, e in holds) for t in range(log_end)
        ),
        "how often, not how long": lambda holds, log_end: sum(1 for _ in holds),
    },
    "tool_line": {
        "the broker's keys are the tool's options": lambda queue, limit, stop, resume: (
            f"qpid-config add queue {queue} --argument qpid.max-count={limit} --qpid.flow_stop_count {stop}"
        ),
        "an underscore is as good as a hyphen": lambda queue, limit, stop, resume: (
            f"qpid-config add queue {queue} --max-queue-count {limit} --flow_stop_count {stop} "
            f"--flow_resume_count {resume}"
        ),
        "size is the number of messages": lambda queue, limit, stop, resume: (
            f"qpid-config add queue {queue} --max-queue-count={limit} --flow-stop-size={stop} "
            f"--flow-resume-size={resume}"
        ),
    },
    "broker_start": {
        "the manual's example of a default group": lambda stop, resume, group: [
            "--default-msg-group",
            group,
            f"--default-flow-stop-threshold={stop}",
            f"--default-flow-resume-threshold={resume}",
        ],
        "a threshold is a share from 0 to 1": lambda stop, resume, group: [
            f"--default-flow-stop-threshold={stop * 0.01:.2f}",
            f"--default-flow-resume-threshold={resume * 0.01:.2f}",
            f"--default-message-group={group}",
        ],
        "a queue's options are the broker's": lambda stop, resume, group: [
            f"--flow-stop-threshold={stop}",
            f"--flow-resume-threshold={resume}",
        ],
    },
    "group_address": {
        "x-declare takes the arguments itself": lambda queue, header: (
            f"{queue}; {{create: always, node: {{x-declare: {{'qpid.group_header_key': {header}}}}}}}"
        ),
        "arguments belong to the node": lambda queue, header: (
            f"{queue}; {{create: always, node: {{arguments: {{'qpid.group_header_key': '{header}'}}}}}}"
        ),
        "an address makes its queue by itself": lambda queue, header: (
            f"{queue}; {{node: {{type: queue, x-declare: {{arguments: {{'qpid.group_header_key': '{header}', "
            "'qpid.shared_msg_group': True}}}}"
        ),
    },
    "group_line": {
        "the header is enough": lambda queue, header: (
            f"qpid-config add queue {queue} --group-header {header}"
        ),
        "sharing is enough": lambda queue, header: f"qpid-config add queue {queue} --shared-groups",
        "the broker's keys are the tool's options": lambda queue, header: (
            f"qpid-config add queue {queue} --qpid.group_header_key={header} --qpid.shared_msg_group=1"
        ),
    },
}
