"""Plausible wrong answers to the design tasks, as learners write them, and what the check should say of each.

Of a design task there are many right answers, and each misconception has many spellings: a check has to know
the misunderstanding from what is returned. Elsewhere it knows it by the results, which are the same for each
spelling; there the misconceptions themselves are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Wrong = dict[str, dict[str, Callable[..., Any]]]


def release_one(consumer, held, target):
    consumer.release(held[0])
    for label in held[1:]:
        consumer.accept(label)


def pair(broker, **queue):
    return lambda limit, manual: {
        "broker": broker,
        "queue": {"qpid.max_count": limit, **({"qpid.flow_stop_count": manual} if not queue else {})},
    }


WRONG: Wrong = {
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
    "session_plan": {
        "one session for all": lambda queues: dict.fromkeys(queues, "s"),
        "two sessions are enough": lambda queues: {queue: "ab"[n % 2] for n, queue in enumerate(queues)},
        "only the first queue is a problem": lambda queues: {
            queue: "own" if queue == queues[0] else "shared" for queue in queues
        },
    },
    "give_up": {
        "release this one, accept the rest": release_one,
        "accept it all the same": lambda consumer, held, target: [consumer.accept(label) for label in held],
        "release this one and keep the rest": lambda consumer, held, target: consumer.release(held[0]),
        "reject everything": lambda consumer, held, target: [consumer.reject(label) for label in held],
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
    "safe_stop": {
        "80 % is always right": lambda limit, capacities: int(0.8 * limit),
        "room for the largest window": lambda limit, capacities: limit - sorted(capacities)[-1],
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
