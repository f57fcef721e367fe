"""Exercises on message groups: who may have which message, what its group is, and how to ask for groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qflow.broker import BrokerOptions, Message
from qflow.configuration.declaration import ConfigurationError
from qflow.configuration.notations import read_address
from qflow.teaching.bench import GROUP, Bench, Reader
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine
from qflow.teaching.exercises.configuration import accepted, typed


def grouped_bench(labels: list[str]) -> Bench:
    """Make a bench with a grouped queue ``q`` that holds these messages; ``A-1`` is of group A."""
    bench = Bench().grouped("q")
    bench.send("q", labels, header=GROUP)
    return bench


def group_of(label: str) -> str:
    """Return the part of a label before its dash."""
    return label.partition("-")[0]


def _second_gets(labels: list[str], first_accepts: bool) -> str | None:
    bench = grouped_bench(labels)
    first, second = bench.reader("q", "first"), bench.reader("q", "second")
    first.fetch()
    if first_accepts:
        first.accept()
    return second.fetch()


SECOND_GETS = Exercise(
    "second_gets",
    "The shopping cart",
    truth=_second_gets,
    cases=(
        (["cart1-add", "cart1-remove"], False),
        (["cart1-add", "cart1-remove"], True),
        (["cart1-add", "cart1-remove", "cart2-add"], False),
        (["A-1", "A-2", "A-3", "B-1", "B-2"], False),
        (["A-1", "B-1", "A-2"], False),
        (["A-1", "B-1", "A-2"], True),
        (["A-1"], False),
        (["A-1", "A-2", "B-1"], True),
    ),
    misconceptions={
        "first come, first served": Misconception(
            lambda labels, first_accepts: labels[1] if len(labels) > 1 else None,
            "on a queue with groups no consumer gets a message of a group that another owns (MG-07). That "
            "is what keeps remove behind add.",
        ),
        "a blocked group blocks the queue": Misconception(
            lambda labels, first_accepts: (
                (labels[1] if len(labels) > 1 else None)
                if first_accepts or len(labels) < 2 or group_of(labels[1]) != group_of(labels[0])
                else None
            ),
            "other groups are not held up: the second consumer gets the first message of a free group, "
            "although it is further back (MG-10, MG-12).",
        ),
        "once an owner, always the owner": Misconception(
            lambda labels, first_accepts: next(
                (label for label in labels[1:] if group_of(label) != group_of(labels[0])), None
            ),
            "a group is free again once its owner has settled all it holds of it; there are no sticky "
            "groups (MG-08, MG-25).",
        ),
    },
    hints=(
        "Which groups are owned at the moment when the second consumer looks?",
        "If the first has accepted, it holds nothing and no group is owned. If not, its message's group is.",
        "The first label after labels[0] whose group is not owned, or None.",
    ),
    rules=("MG-07", "MG-08", "MG-10", "MG-12"),
)


def _shares(labels: list[str], first_prefetch: int, second_prefetch: int) -> tuple[list[str], list[str]]:
    bench = grouped_bench(labels)
    first = bench.reader("q", "first", first_prefetch)
    second = bench.reader("q", "second", second_prefetch)
    return first.got, second.got


def _by_groups(labels: list[str], first: int, second: int, whole: bool) -> tuple[list[str], list[str]]:
    mine = labels[:first]
    owned = {group_of(label) for label in mine}
    if whole:
        mine = [label for label in labels if group_of(label) in owned]
    rest = [label for label in labels if group_of(label) not in owned]
    return mine, rest[:second]


SHARES = Exercise(
    "shares",
    "The first N messages",
    truth=_shares,
    cases=(
        (["A-1", "A-2", "A-3", "B-1"], 2, 2),
        (["A-1", "A-2", "A-3", "B-1", "B-2"], 1, 1),
        (["A-1", "B-1", "C-1", "A-2", "B-2"], 2, 5),
        (["A-1", "A-2", "A-3"], 2, 2),
        (["A-1", "B-1", "A-2", "B-2", "C-1", "C-2"], 3, 1),
        (["A-1", "B-1"], 5, 5),
    ),
    misconceptions={
        "an owner gets the whole group": Misconception(
            lambda labels, first, second: _by_groups(labels, first, second, whole=True),
            "prefetch bounds what it may hold; the rest of the group waits on the queue, for it alone "
            "(MG-14).",
        ),
        "groups do not matter to prefetch": Misconception(
            lambda labels, first, second: (labels[:first], labels[first : first + second]),
            "the rest of an owned group is blocked for the second consumer (MG-07, MG-14).",
        ),
        "one group for each consumer": Misconception(
            lambda labels, first, second: (
                [label for label in labels if group_of(label) == group_of(labels[0])][:first],
                [label for label in labels if group_of(label) != group_of(labels[0])][:second],
            ),
            "a consumer may own several groups at once; prefetch counts all of them together (MG-14).",
        ),
    },
    hints=(
        "The first consumer comes to an empty place: nothing is owned yet. What limits what it takes?",
        "The first takes the first N messages and owns their groups. The second takes from all other groups.",
        "first = labels[:n]; then of the labels whose group is not among those, the first m.",
    ),
    rules=("MG-07", "MG-10", "MG-14"),
    parts=("what the first consumer has been given", "what the second consumer has been given"),
)


def _next_owner_gets(held: int, actions: list[str], more: int) -> list[str]:
    labels = [f"A-{n}" for n in range(1, held + more + 1)]
    bench = grouped_bench(labels)
    first = bench.reader("q", "first")
    for _ in range(held):
        first.fetch()
    for label, action in zip(labels, actions, strict=False):
        {"accept": first.accept, "release": first.release, "reject": first.reject}[action](label)
    second = bench.reader("q", "second")
    while second.fetch() is not None:
        pass
    return [label.rstrip("*") for label in second.got]


NEXT_GETS = Exercise(
    "next_gets",
    "A-1 behind A-2",
    truth=_next_owner_gets,
    cases=(
        (2, ["release", "accept"], 1),
        (2, ["accept", "accept"], 1),
        (2, ["accept"], 2),
        (2, ["reject", "accept"], 1),
        (2, ["release", "release"], 1),
        (3, ["release", "accept"], 1),
        (3, ["release", "accept", "reject"], 2),
        (1, ["release"], 1),
    ),
    misconceptions={
        "a release goes to the end": Misconception(
            lambda held, actions, more: (
                []
                if len(actions) < held
                else [f"A-{held + n}" for n in range(1, more + 1)]
                + [f"A-{n}" for n, a in enumerate(actions, 1) if a == "release"]
            ),
            "a released message goes back to its old place, before everything that came later (CN-14).",
        ),
        "the first accept frees the group": Misconception(
            lambda held, actions, more: (
                [f"A-{n}" for n, action in enumerate(actions, 1) if action == "release"]
                + [f"A-{held + n}" for n in range(1, more + 1)]
            ),
            "the group stays owned until its consumer has settled everything it holds of it (MG-08, MG-09).",
        ),
        "what is rejected comes back": Misconception(
            lambda held, actions, more: (
                []
                if len(actions) < held
                else [f"A-{n}" for n, a in enumerate(actions, 1) if a in ("release", "reject")]
                + [f"A-{held + n}" for n in range(1, more + 1)]
            ),
            "reject takes the message off the queue for good; that is why it keeps the order (CN-16, MG-18).",
        ),
        "what is released is lost": Misconception(
            lambda held, actions, more: (
                [] if len(actions) < held else [f"A-{held + n}" for n in range(1, more + 1)]
            ),
            "a released message is on the queue again, and so is processed after A-2 (MG-18).",
        ),
    },
    hints=(
        "First question: is the group free at all? Second: what is on the queue, in which order?",
        "Free only if as many actions as messages held. Released ones stand at their old places.",
        "The released ones in their order, then those never delivered; or nothing if something is still "
        "held.",
    ),
    rules=("MG-08", "MG-09", "MG-18", "CN-14"),
    shows=("G-09",),
)


def _kept_order(answer: Callable[[Reader, list[str], str], None], held: int, failing: int) -> str:
    labels = [f"A-{n}" for n in range(1, held + 3)]
    bench = grouped_bench(labels)
    first = bench.reader("q", "first")
    for _ in range(held):
        first.fetch()
    mine, target = labels[:held], labels[failing - 1]
    if failing > 1:
        first.accept(*mine[: failing - 1])
    answer(first, mine[failing - 1 :], target)
    if first.holds:
        return f"{', '.join(first.holds)} is neither accepted nor given back, so the group waits for ever"
    second = bench.reader("q", "second")
    got: list[str] = []
    while (label := second.fetch()) is not None:
        got.append(label.rstrip("*"))
        second.accept()
    statistics = bench.statistics("q")
    if statistics.discardsSubscriber:
        later = [label for label in mine[failing:] if label not in got and label != target]
        given_up = statistics.discardsSubscriber > 1
        return f"{', '.join(later)} was thrown away although it could be processed" if given_up else FINE
    if target not in got:
        return f"{target} was accepted although it could not be processed: it will never be processed"
    passed = [label for label in mine[failing:] if label not in got]
    return f"{target} is processed after {', '.join(passed)}" if passed else FINE


GIVE_UP = Exercise(
    "give_up",
    "Keep the order when you cannot go on",
    truth=fine,
    outcome=_kept_order,
    cases=((2, 1), (3, 2), (4, 1), (5, 3), (3, 1)),
    misconceptions={
        "release this one, accept the rest": Misconception(
            lambda consumer, held, target: (
                consumer.release(target),
                [consumer.accept(label) for label in held if label != target],
            ),
            "then the next consumer processes it after the others, although the broker enforces the order. "
            "Release all of them, or reject the one (MG-18).",
        ),
        "accept it all the same": Misconception(
            lambda consumer, held, target: consumer.accept(*held),
            "accept says that the message has been processed. No consumer gets it again (CN-13).",
        ),
        "release this one and keep the rest": Misconception(
            lambda consumer, held, target: consumer.release(target),
            "the group stays owned as long as you hold anything of it; no other consumer gets one (MG-08).",
        ),
        "reject everything": Misconception(
            lambda consumer, held, target: consumer.reject(*held),
            "that keeps the order, but throws away messages that could have been processed (CN-16).",
        ),
    },
    hints=(
        "Two ways are right. One gives up the message, the other gives up nothing but time.",
        "Nothing that came after the failing message may be accepted before it has been dealt with.",
        "consumer.release(*held); or consumer.reject(target) and then accept the others.",
    ),
    rules=("MG-08", "MG-18", "CN-13", "CN-16"),
    shows=("G-09",),
)


Headers = dict[str, Any]


def _group_id(headers: Headers, key: str, default: str) -> str:
    bench = Bench(BrokerOptions(default_message_group=default)).declare(
        "q", group_header_key=key, shared_msg_group=1
    )
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
    misconceptions={
        "no identifier, no group": Misconception(
            lambda headers, key, default: _text(headers.get(key), ""),
            "messages without an identifier all belong to one group of their own, the default group (MG-05).",
        ),
        "only text counts": Misconception(
            lambda headers, key, default: (
                headers[key] if isinstance(headers.get(key), str) and headers[key] else default
            ),
            "whole numbers name a group too: 5 and the text 5 are the same group (MG-04).",
        ),
        "everything has a text": Misconception(
            lambda headers, key, default: _text(headers.get(key), default),
            "truth values and numbers with a fraction have no text here, they fall into the default group; "
            "whole numbers pass through 32 bits (MG-04).",
        ),
        "the group is in the first header": Misconception(
            lambda headers, key, default: _text(next(iter(headers.values()), None), default),
            "the queue names the header; other headers do not matter (MG-03, MG-04).",
        ),
    },
    hints=(
        "Three kinds of values name a group: text, whole numbers, UUIDs. Everything else falls together.",
        "True is an int in Python, but no whole number for the broker. And 32 bits, signed, is all it keeps.",
        "For an int: str((value + 2**31) % 2**32 - 2**31). For a text that is not empty: itself. Else: "
        "default.",
    ),
    rules=("MG-03", "MG-04", "MG-05"),
)


def _makes_groups(answer: Callable[[str], Headers], header: str) -> str:
    bench = Bench()
    return bench.refusal("q", answer(header)) or _in_groups(bench, "q", header)


GROUP_ARGUMENTS = Exercise(
    "group_arguments",
    "Groups in queue.declare",
    truth=fine,
    outcome=_makes_groups,
    cases=(("cart",), ("THE-GROUP",), ("x",)),
    misconceptions={
        "the key is enough": Misconception(
            lambda header: {"qpid.group_header_key": header},
            "qpid.shared_msg_group has to be true as well; without it the broker refuses (MG-01).",
        ),
        "shared is enough": Misconception(
            lambda header: {"qpid.shared_msg_group": 1},
            "the queue has to know which header holds the identifier (MG-01).",
        ),
        "the tool's names are the broker's keys": Misconception(
            lambda header: {"group-header": header, "shared-groups": True},
            "those are options of qpid-config; unknown keys are accepted without a word (CF-02, MG-01).",
            sign=lambda given: any(not key.startswith("qpid.") for key in given),
        ),
        "the header's name is the key": Misconception(
            lambda header: {f"qpid.{header}": 1, "qpid.shared_msg_group": 1},
            "the header's name is the value of qpid.group_header_key (MG-01).",
            sign=lambda given: "qpid.group_header_key" not in given and len(given) == 2,
        ),
    },
    hints=(
        "Two arguments are needed: which header, and that the order holds across consumers.",
        "qpid.group_header_key and qpid.shared_msg_group.",
        '{"qpid.group_header_key": header, …: 1}',
    ),
    rules=("MG-01", "CF-02"),
    lab="configuration",
)


def _in_groups(bench: Bench, queue: str, header: str) -> str:
    """Say whether a second consumer is kept from a group that the first one owns."""
    bench.send(queue, ["A-1", "A-2", "B-1"], header=header)
    bench.reader(queue, "first").fetch()
    got = bench.reader(queue, "second").fetch()
    return FINE if got == "B-1" else f"a second consumer gets {got} while A is owned, so there are no groups"


def _group_address(answer: Callable[[str, str], str], queue: str, header: str) -> str:
    from qflow.messaging.address import parse

    address = answer(queue, header)
    if not isinstance(address, str):
        return f"an address string is needed; got {address!r}"
    bench = Bench()
    try:
        declaration = accepted(bench, read_address(address), queue)
    except ConfigurationError as error:
        return str(error)
    if isinstance(declaration, str):
        return declaration
    if (parse(address).options or {}).get("create") not in ("always", "sender", "receiver"):
        return "a client would look for the queue, and not make it"
    return _in_groups(bench, queue, header)


_GROUPS = "'qpid.group_header_key': '{header}', 'qpid.shared_msg_group': 1"


def _address(pattern: str) -> Callable[[str, str], str]:
    return lambda queue, header: f"{queue}; " + pattern.replace("{header}", header)


GROUP_ADDRESS = Exercise(
    "group_address",
    "Groups in an address string",
    truth=fine,
    outcome=_group_address,
    cases=(("orders", "cart"), ("q", "THE-GROUP"), ("events", "user")),
    misconceptions={
        "x-declare takes the arguments itself": Misconception(
            _address("{create: always, node: {x-declare: {" + _GROUPS + "}}}"),
            "inside x-declare they belong into a map called arguments (CF-14).",
            sign=lambda address: "x-declare" in address and "arguments" not in address,
        ),
        "arguments belong to the node": Misconception(
            _address("{create: always, node: {arguments: {" + _GROUPS + "}}}"),
            "the node has x-declare, and that has arguments (CF-14).",
            sign=lambda address: "x-declare" not in address,
        ),
        "an address makes its queue by itself": Misconception(
            _address("{node: {x-declare: {arguments: {" + _GROUPS + "}}}}"),
            "without create: always the client only looks for the queue (CF-14).",
            sign=lambda address: "create" not in address,
        ),
        "keys need no quotes": Misconception(
            _address(
                "{create: always, node: {x-declare: {arguments: {qpid.group_header_key: '{header}', "
                "qpid.shared_msg_group: 1}}}}"
            ),
            "a key with a dot in it has to be quoted here (CF-14).",
            sign=lambda address: "'qpid." not in address and '"qpid.' not in address,
        ),
    },
    hints=(
        "NAME; {…}: a map that says to create the queue, and how to declare it.",
        "create: always, and node with x-declare with arguments; quote the keys.",
        "NAME; {create: always, node: {x-declare: {arguments: {'qpid.group_header_key': …, …: 1}}}}",
    ),
    rules=("CF-14", "MG-01"),
    lab="configuration",
)


def _group_line(answer: Callable[[str, str], str], queue: str, header: str) -> str:
    bench = Bench()
    declaration = typed(bench, answer(queue, header), queue)
    return declaration if isinstance(declaration, str) else _in_groups(bench, queue, header)


GROUP_LINE = Exercise(
    "group_line",
    "Groups with qpid-config",
    truth=fine,
    outcome=_group_line,
    cases=(("orders", "cart"), ("q", "THE-GROUP"), ("events", "user")),
    misconceptions={
        "the header is enough": Misconception(
            lambda queue, header: f"qpid-config add queue {queue} --group-header={header}",
            "the tool sends just that, and the broker refuses: --shared-groups is needed too (MG-01).",
            sign=lambda line: "--group-header" in line and "--shared-groups" not in line,
        ),
        "sharing is enough": Misconception(
            lambda queue, header: f"qpid-config add queue {queue} --shared-groups",
            "the queue has to know which header holds the identifier: --group-header (MG-01).",
            sign=lambda line: (
                "--shared-groups" in line and "group" not in line.replace("--shared-groups", "")
            ),
        ),
        "the broker's keys are the tool's options": Misconception(
            lambda queue, header: (
                f"qpid-config add queue {queue} --group_header_key={header} --shared_msg_group=1"
            ),
            "qpid-config has options of its own: --group-header and --shared-groups.",
            sign=lambda line: "header_key" in line or "msg_group" in line,
        ),
        "shared groups take a value": Misconception(
            lambda queue, header: f"qpid-config add queue {queue} --group-header={header} --shared-groups=1",
            "--shared-groups is a switch; it takes no value.",
            sign=lambda line: "--shared-groups=" in line,
        ),
    },
    hints=(
        "Two options. One has a value, the other is a switch.",
        "--group-header names the header; --shared-groups asks for the order over all consumers.",
        "qpid-config add queue NAME --group-header=… --shared-groups",
    ),
    rules=("MG-01",),
    lab="configuration",
)


EXERCISES = (
    SECOND_GETS,
    SHARES,
    NEXT_GETS,
    GIVE_UP,
    GROUP_ID,
    GROUP_ARGUMENTS,
    GROUP_LINE,
    GROUP_ADDRESS,
)
