"""Exercises on how groups are configured, and how a message's group is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qflow.broker import BrokerOptions, Message
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine
from qflow.teaching.exercises.bench import Bench
from qflow.teaching.exercises.spellings import GROUP_ADDRESS, GROUP_LINE

Headers = dict[str, Any]


def _group_id(headers: Headers, key: str, default: str) -> str:
    bench = Bench(BrokerOptions(default_message_group=default))
    bench.declare("q", group_header_key=key, shared_msg_group=1)
    bench.producer.message_transfer(Message(10, "q", headers=headers))
    answer = bench.broker.management.query("queue", "q")
    state: Any = answer["qpid.message_group_queue"]
    found: str = state["group_state"][0]["group_id"]
    return found


def _text(value: object, default: str) -> str:
    return default if value is None or value == "" else str(value)


GROUP_ID = Exercise(
    "group_id",
    "Which group is it?",
    truth=_group_id,
    cases=(
        ({"cart": "c1"}, "cart", "qpid.no-group"),
        ({}, "cart", "qpid.no-group"),
        ({"user": "u1"}, "cart", "EMPTY-GROUP"),
        ({"cart": ""}, "cart", "qpid.no-group"),
        ({"cart": 5}, "cart", "qpid.no-group"),
        ({"cart": "5"}, "cart", "qpid.no-group"),
        ({"cart": True}, "cart", "qpid.no-group"),
        ({"cart": 2.5}, "cart", "qpid.no-group"),
        ({"cart": "c1", "user": "u7"}, "user", "qpid.no-group"),
        ({"cart": 2**32 + 5}, "cart", "qpid.no-group"),
    ),
    misconceptions=(
        Misconception(
            "no identifier, no group",
            lambda headers, key, default: _text(headers.get(key), ""),
            "messages without an identifier all belong to one group of their own, the default group (MG-05).",
        ),
        Misconception(
            "only text counts",
            lambda headers, key, default: (
                headers[key] if isinstance(headers.get(key), str) and headers[key] else default
            ),
            "whole numbers name a group too: 5 and the text 5 are the same group (MG-04).",
        ),
        Misconception(
            "everything has a text",
            lambda headers, key, default: _text(headers.get(key), default),
            "truth values and numbers with a fraction have no text here, they fall into the default group; "
            "whole "
            "numbers pass through 32 bits (MG-04).",
        ),
        Misconception(
            "the group is in the first header",
            lambda headers, key, default: _text(next(iter(headers.values()), None), default),
            "the queue names the header; other headers do not matter (MG-03, MG-04).",
        ),
    ),
    hints=(
        "Three kinds of values name a group: text, whole numbers, UUIDs. Everything else falls together.",
        "True is an int in Python, but no whole number for the broker. And 32 bits, signed, is all it keeps.",
        "For an int: str((value + 2**31) % 2**32 - 2**31). For a text that is not empty: itself. Else: "
        "default.",
    ),
    rules=("MG-03", "MG-04", "MG-05"),
)


def _makes_groups(answer: Callable[[str], Headers], header: str) -> str:
    arguments, bench = answer(header), Bench()
    if refusal := bench.refusal("q", arguments):
        return refusal
    bench.send("q", ["A-1", "A-2", "B-1"], header=header)
    first, second = bench.reader("q", "first"), bench.reader("q", "second")
    first.fetch()
    got = second.fetch()
    return FINE if got == "B-1" else f"the second consumer got {got} while A is owned, so there are no groups"


GROUP_ARGUMENTS = Exercise(
    "group_arguments",
    "Groups in queue.declare",
    truth=fine,
    outcome=_makes_groups,
    cases=(("cart",), ("THE-GROUP",), ("x",)),
    misconceptions=(
        Misconception(
            "the key is enough",
            lambda header: {"qpid.group_header_key": header},
            "qpid.shared_msg_group has to be true as well; without it the broker refuses (MG-01).",
        ),
        Misconception(
            "shared is enough",
            lambda header: {"qpid.shared_msg_group": 1},
            "the queue has to know which header holds the identifier (MG-01).",
        ),
        Misconception(
            "the tool's names are the broker's keys",
            lambda header: {"group-header": header, "shared-groups": True},
            "those are options of qpid-config; unknown keys are accepted without a word (CF-02, MG-01).",
            sign=lambda given: any(not key.startswith("qpid.") for key in given),
        ),
        Misconception(
            "the header's name is the key",
            lambda header: {f"qpid.{header}": 1, "qpid.shared_msg_group": 1},
            "the header's name is the value of qpid.group_header_key (MG-01).",
            sign=lambda given: "qpid.group_header_key" not in given and len(given) == 2,
        ),
    ),
    hints=(
        "Two arguments are needed: which header, and that the order holds across consumers.",
        "qpid.group_header_key and qpid.shared_msg_group.",
        '{"qpid.group_header_key": header, …: 1}',
    ),
    rules=("MG-01", "CF-02"),
)

EXERCISES = (GROUP_ID, GROUP_ARGUMENTS, GROUP_LINE, GROUP_ADDRESS)
