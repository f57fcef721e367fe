"""Plausible wrong answers, as learners write them, and what the check should say of each.

They are written on their own, not taken from the misconceptions that the exercises list: a check has to know
the misunderstanding from what comes of the code, not from the code. So they stand here where a learner's code
is another than the exercise's (a loop, not a formula) or bears a sign in another spelling; that a
misconception's own answer is told by its name, every exercise is tested for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import add, ge, gt, le, lt
from typing import Any


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


def two_units(on_if, off_if, above=gt, below=lt):
    def answer(levels, stop, resume):
        on, out = False, []
        for level in levels:
            if on:
                on = not off_if(map(below, level, resume))
            else:
                on = on_if(map(above, level, stop))
            out.append("ON" if on else "OFF")
        return out

    return answer


def by_depth(is_complete):
    def answer(sends, stops):
        depth, out = Counter(), []
        for number, queue in enumerate(sends):
            depth[queue] += 1
            if is_complete(depth[queue], stops[queue]):
                out.append(number)
        return out

    return answer


def first_hole(sends, stops):
    complete = by_depth(lambda depth, stop: depth <= stop)(sends, stops)
    return [number for place, number in enumerate(complete) if number == place]


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


def ring_lowest(gives_way):
    def answer(limit, priorities):
        queue = []
        for n, new in enumerate(priorities):
            worst = min(queue, key=priorities.__getitem__, default=None)
            if len(queue) == limit and not gives_way(priorities[worst], new):
                continue
            if len(queue) == limit:
                queue.remove(worst)
            queue.append(n)
        return sorted(queue, key=lambda n: -priorities[n])

    return answer


def last_values_in_room(limit, keys):
    queue = []
    for key in keys:
        if key in queue:
            queue.remove(key)
        queue.append(key)
        queue = queue[-limit:]
    return queue


def ring_group(first_left):
    def answer(limit, labels, fetched):
        owned = {group_of(label) for label in labels[:fetched]}
        left = labels[first_left(fetched, len(labels) - limit) :]
        return next((label for label in left if group_of(label) not in owned), None)

    return answer


def history(design, limit, threshold, sends):
    refused = 506 if sends > limit else 0
    depth = min(limit, sends)
    held = {"pre-feature": 0, "overflow-list": sends - depth}
    return depth, held.get(design, max(0, depth - threshold)), refused


def proposal_is_shipped(design, limit, threshold, sends):
    depth, held, code = history(design, limit, threshold, sends)
    return depth, held, 0 if design == "overflow-list" else code


def all_throw(design, limit, threshold, sends):
    depth, held, code = history(design, limit, threshold, sends)
    return depth, max(0, depth - threshold + 1) if design == "watermark" else held, code


def no_overflow_ever(design, limit, threshold, sends):
    depth, held, code = all_throw(design, limit, threshold, sends)
    return depth, held, code if design == "pre-feature" else 0


def fits(sends, limits):
    return [n for n in range(len(sends)) if sends[: n + 1].count(sends[n]) <= limits[sends[n]]]


def one_more(sends, limits):
    ok = fits(sends, limits)
    first = min((n for n in range(len(sends)) if n not in ok), default=None)
    return list(range(len(sends))) if first is None else list(range(first + 1))


def named(*names, **besides):
    return lambda *values: {**dict(zip(names, values, strict=False)), **besides}


WRONG: dict[str, dict[str, Callable[..., Any]]] = {
    "flow_states": {
        "reached is enough": states_with_equal,
        "it starts ON": states_from_on,
    },
    "activations": {
        "both ways count": both_ways,
        "every step that ends above stop": steps_above,
    },
    "states_both": {
        "both stop thresholds have to be passed": two_units(all, all),
        "either resume threshold will do": two_units(any, any),
        "reached is enough": two_units(any, all, ge, le),
    },
    "completed": {
        "completions come in order": first_hole,
        "only the first above is held": by_depth(lambda depth, stop: depth != stop + 1),
        "reached is enough": by_depth(lambda depth, stop: depth < stop),
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
    "declare_arguments": {
        "the tool's names are the broker's keys": named(
            "--max-queue-count", "--flow-stop-count", "--flow-resume-count"
        ),
        "a hyphen is as good as an underscore": named(
            "qpid.max_count", "qpid.flow-stop-count", "qpid.flow-resume-count"
        ),
    },
    "switched_off": {
        "zero for resume": named("qpid.max_count", "qpid.max_size", **{"qpid.flow_resume_count": 0}),
        "a ring never stops anybody": named("qpid.max_count", **{"qpid.policy_type": "ring"}),
    },
    "shares": {
        "an owner gets the whole group": whole_group,
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
    },
    "group_arguments": {
        "the tool's names are the broker's keys": named("--group-header", **{"--shared-groups": 1}),
    },
    "idle_gets": {
        "an accept wakes the others": idle(("owner", "arrives")),
        "only arrivals wake": idle(("arrives",)),
    },
    "turns": {
        "in blocks": blocks,
    },
    "ring_priorities": {
        "the oldest has to go": ring_by_age,
        "the lowest has to go, whatever comes": ring_lowest(lambda old, new: True),
        "the new one has to be strictly higher": ring_lowest(lt),
    },
    "ring_last_values": {
        "a replacement needs no room": last_values_in_room,
    },
    "ring_group": {
        "an owner keeps its group": ring_group(max),
        "only waiting messages are evicted": ring_group(add),
    },
    "what_happens": {
        "the proposal is what shipped": proposal_is_shipped,
        "flow control prevents overflow": no_overflow_ever,
        "they all throw the producer out": all_throw,
    },
    "on_the_queues": {
        "other queues go on": fits,
        "one message overshoots": one_more,
    },
    "safe_stop": {
        "the lower the safer": lambda limit, capacities: 2,
    },
    "share_the_room": {
        "50 is the default, so it is right": lambda limit, stop, producers: (50,) * producers,
    },
    "tool_line": {
        "the broker's keys are the tool's options": (
            "qpid-config add queue {} --argument qpid.max-count={} --qpid.flow_stop_count {}".format
        ),
        "an underscore is as good as a hyphen": (
            "qpid-config add queue {} --max-queue-count {} --flow_stop_count {} --flow_resume_count {}".format
        ),
        "size is the number of messages": (
            "qpid-config add queue {} --max-queue-count={} --flow-stop-size={} --flow-resume-size={}".format
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
        "the header is enough": "qpid-config add queue {} --group-header {}".format,
        "the broker's keys are the tool's options": (
            "qpid-config add queue {} --qpid.group_header_key={} --qpid.shared_msg_group=1".format
        ),
    },
}
