"""Plausible wrong answers, as learners write them, and what the check should say of each.

They are written on their own, not taken from the misconceptions that the exercises list: a check has to know
the misunderstanding from what comes of the code, not from the code. So they stand here where a learner's code
is another than the exercise's (a loop, not a formula) or bears a sign in another spelling; that a
misconception's own answer is told by its name, every exercise is tested for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from operator import ge, gt, le, lt
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


def one_counter(sends, stops):
    out = []
    for number, queue in enumerate(sends, 1):
        if number <= stops[queue]:
            out.append(number - 1)
    return out


def off_at_resume(stop, resume, sent, taken):
    left = sent - taken
    held = list(range(stop + 1, sent + 1))
    return len(held) if left <= resume else len([number for number in held if number <= taken])


def stuck_behind_the_first_group(labels, first, second):
    mine, others = labels[:first], []
    for label in labels[first:]:
        if label.split("-")[0] in [one.split("-")[0] for one in mine]:
            break
        others.append(label)
    return mine, others[:second]


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


def release_one(consumer, held, target):
    consumer.release(held[0])
    for label in held[1:]:
        consumer.accept(label)


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
        "one count for all queues": one_counter,
        "completions come in order": first_hole,
        "only the first above is held": by_depth(lambda depth, stop: depth != stop + 1),
        "reached is enough": by_depth(lambda depth, stop: depth < stop),
    },
    "released": {"reached is enough": off_at_resume},
    "shares": {"a blocked group blocks the queue": stuck_behind_the_first_group},
    "worst_depth": {"the stop threshold is a limit": lambda stop, capacities: stop},
    "after_the_stall": {
        "back at the threshold, and one long stop": lambda stop, capacities: (
            *(stop + sum(capacities), sum(capacities)),
            *(stop + sum(capacities), 1),
        ),
    },
    "overflow": {
        "only that message is refused": lambda limit, stop, sends: (
            *(min(sends, limit), "ON" if min(sends, limit) > stop else "OFF"),
            *(0 if sends <= limit else 506, True),
        ),
    },
    "message_bytes": {"a header of one size": lambda exchange, routing_key, content: content + 32},
    "default_thresholds": {
        "a threshold has decimals": lambda limit, stop, resume: (stop * limit / 100, resume * limit / 100),
        "both are rounded up": lambda limit, stop, resume: (
            -(-limit * stop // 100),
            -(-limit * resume // 100),
        ),
        "both by Python's round": lambda limit, stop, resume: (
            round(limit / 100 * stop),
            round(limit / 100 * resume),
        ),
        # Both spellings of 70 % of 90, and a rule that no single belief explains.
        "": lambda limit, stop, resume: (round(limit * stop / 100), int(limit * resume / 100)),
    },
    "completed_after_purges": {
        "one queue's release is enough": purges(
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
    "give_up": {
        "release this one, accept the rest": release_one,
    },
    "group_arguments": {
        "the tool's names are the broker's keys": named("--group-header", **{"--shared-groups": 1}),
    },
    "what_happens": {
        "the proposal is what shipped": proposal_is_shipped,
        "flow control prevents overflow": no_overflow_ever,
        "they all throw the producer out": all_throw,
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
