"""Exercises on message groups: who may have which message, what its group is, and how to ask for groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from qflow.broker import BrokerOptions, Message
from qflow.configuration.declaration import ConfigurationError
from qflow.configuration.notations import read_address
from qflow.teaching.exercise import FINE, add_exercise, add_task
from qflow.teaching.exercises.configuration import declare_line, declare_queue
from qflow.teaching.trial import GROUP, Reader, Trial


def _fill_groups(labels: list[str]) -> Trial:
    """Fill a grouped queue ``q`` that holds these messages; ``A-1`` is of group A."""
    trial = Trial().declare_groups("q")
    trial.send("q", labels, header=GROUP)
    return trial


def group_of(label: str) -> str:
    """Return the part of a label before its dash."""
    return label.partition("-")[0]


def _second_gets(labels: list[str], first_accepts: bool) -> str | None:
    trial = _fill_groups(labels)
    first, second = trial.reader("q", "first"), trial.reader("q", "second")
    first.fetch()
    if first_accepts:
        first.accept()
    return second.fetch()


add_exercise(
    "second_gets",
    _second_gets,
    misconceptions={
        "first come, first served": lambda labels, first_accepts: labels[1] if len(labels) > 1 else None,
        "a blocked group blocks the queue": lambda labels, first_accepts: (
            (labels[1] if len(labels) > 1 else None)
            if first_accepts or len(labels) < 2 or group_of(labels[1]) != group_of(labels[0])
            else None
        ),
        "once an owner, always the owner": lambda labels, first_accepts: next(
            (label for label in labels[1:] if group_of(label) != group_of(labels[0])), None
        ),
    },
)


def _shares(labels: list[str], first_prefetch: int, second_prefetch: int) -> tuple[list[str], list[str]]:
    trial = _fill_groups(labels)
    first = trial.reader("q", "first", first_prefetch)
    second = trial.reader("q", "second", second_prefetch)
    return first.got, second.got


def _by_groups(labels: list[str], first: int, second: int, whole: bool) -> tuple[list[str], list[str]]:
    mine = labels[:first]
    owned = {group_of(label) for label in mine}
    if whole:
        mine = [label for label in labels if group_of(label) in owned]
    rest = [label for label in labels if group_of(label) not in owned]
    return mine, rest[:second]


add_exercise(
    "shares",
    _shares,
    misconceptions={
        "an owner gets the whole group": partial(_by_groups, whole=True),
        "groups do not matter to prefetch": lambda labels, first, second: (
            labels[:first],
            labels[first : first + second],
        ),
        "one group for each consumer": lambda labels, first, second: (
            [label for label in labels if group_of(label) == group_of(labels[0])][:first],
            [label for label in labels if group_of(label) != group_of(labels[0])][:second],
        ),
    },
)


def _next_owner_gets(held: int, actions: list[str], more: int) -> list[str]:
    labels = [f"A-{n}" for n in range(1, held + more + 1)]
    trial = _fill_groups(labels)
    first = trial.reader("q", "first")
    first.fetch(held)
    for label, action in zip(labels, actions, strict=False):
        getattr(first, action)(label)
    second = trial.reader("q", "second")
    while second.fetch() is not None:
        pass
    return [label.rstrip("*") for label in second.got]


def _later(held: int, more: int) -> list[str]:
    return [f"A-{held + n}" for n in range(1, more + 1)]


def _select_answered(actions: list[str], *how: str) -> list[str]:
    return [f"A-{n}" for n, action in enumerate(actions, 1) if action in how]


add_exercise(
    "next_gets",
    _next_owner_gets,
    misconceptions={
        "a release goes to the end": lambda held, actions, more: (
            [] if len(actions) < held else _later(held, more) + _select_answered(actions, "release")
        ),
        "the first accept frees the group": lambda held, actions, more: (
            _select_answered(actions, "release") + _later(held, more)
        ),
        "what is rejected comes back": lambda held, actions, more: (
            [] if len(actions) < held else _select_answered(actions, "release", "reject") + _later(held, more)
        ),
        "what is released is lost": lambda held, actions, more: (
            [] if len(actions) < held else _later(held, more)
        ),
    },
)


def _kept_order(answer: Callable[[Reader, list[str], str], None], held: int, failing: int) -> str:
    labels = [f"A-{n}" for n in range(1, held + 3)]
    trial = _fill_groups(labels)
    first = trial.reader("q", "first")
    first.fetch(held)
    mine, target = labels[:held], labels[failing - 1]
    if failing > 1:
        first.accept(*mine[: failing - 1])
    answer(first, mine[failing - 1 :], target)
    if first.holds:
        return f"{', '.join(first.holds)} is neither accepted nor given back, so the group waits for ever"
    second = trial.reader("q", "second")
    got: list[str] = []
    while (label := second.fetch()) is not None:
        got.append(label.rstrip("*"))
        second.accept()
    statistics = trial.statistics("q")
    if statistics.discardsSubscriber:
        later = [label for label in mine[failing:] if label not in got and label != target]
        given_up = statistics.discardsSubscriber > 1
        return f"{', '.join(later)} was thrown away although it could be processed" if given_up else FINE
    if target not in got:
        return f"{target} was accepted although it could not be processed: it will never be processed"
    passed = [label for label in mine[failing:] if label not in got]
    return f"{target} is processed after {', '.join(passed)}" if passed else FINE


add_task(
    "give_up",
    _kept_order,
    misconceptions={
        "release this one, accept the rest": lambda consumer, held, target: (
            consumer.release(target),
            [consumer.accept(label) for label in held if label != target],
        ),
        "accept it all the same": lambda consumer, held, target: consumer.accept(*held),
        "release this one and keep the rest": lambda consumer, held, target: consumer.release(target),
        "reject everything": lambda consumer, held, target: consumer.reject(*held),
        "nothing is told to the broker": lambda consumer, held, target: None,
    },
)


_Headers = dict[str, Any]


def _group_id(headers: _Headers, key: str, default: str) -> str:
    trial = Trial(BrokerOptions(default_message_group=default)).declare(
        "q", group_header_key=key, shared_msg_group=1
    )
    trial.producer.message_transfer(Message(10, "q", headers=headers))
    answer = trial.broker.management.query("queue", "q")
    state: Any = answer["qpid.message_group_queue"]
    found: str = state["group_state"][0]["group_id"]
    return found


def _text(value: object, default: str) -> str:
    return default if value is None or value == "" else str(value)


add_exercise(
    "group_id",
    _group_id,
    misconceptions={
        "no identifier, no group": lambda headers, key, default: _text(headers.get(key), ""),
        "only text counts": lambda headers, key, default: (
            headers[key] if isinstance(headers.get(key), str) and headers[key] else default
        ),
        "everything has a text": lambda headers, key, default: _text(headers.get(key), default),
        "the group is in the first header": lambda headers, key, default: _text(
            next(iter(headers.values()), None), default
        ),
    },
)


def _makes_groups(answer: Callable[[str], _Headers], header: str) -> str:
    trial = Trial()
    return trial.refusal("q", answer(header)) or _in_groups(trial, "q", header)


add_task(
    "group_arguments",
    _makes_groups,
    misconceptions={
        "the key is enough": lambda header: {"qpid.group_header_key": header},
        "shared is enough": lambda header: {"qpid.shared_msg_group": 1},
        "the tool's names are the broker's keys": (
            lambda header: {"group-header": header, "shared-groups": True},
            lambda given: any(not key.startswith("qpid.") for key in given),
        ),
        "the header's name is the key": (
            lambda header: {f"qpid.{header}": 1, "qpid.shared_msg_group": 1},
            lambda given: "qpid.group_header_key" not in given and len(given) == 2,
        ),
    },
)


def _in_groups(trial: Trial, queue: str, header: str) -> str:
    """Say whether a second consumer is kept from a group that the first one owns."""
    trial.send(queue, ["A-1", "A-2", "B-1"], header=header)
    trial.reader(queue, "first").fetch()
    got = trial.reader(queue, "second").fetch()
    return FINE if got == "B-1" else f"a second consumer gets {got} while A is owned, so there are no groups"


def _group_address(answer: Callable[[str, str], str], queue: str, header: str) -> str:
    from qflow.messaging.address import parse

    address = answer(queue, header)
    if not isinstance(address, str):
        return f"an address string is needed; got {address!r}"
    trial = Trial()
    try:
        declaration = declare_queue(trial, read_address(address), queue)
    except ConfigurationError as error:
        return str(error)
    if isinstance(declaration, str):
        return declaration
    if (parse(address).options or {}).get("create") not in ("always", "sender", "receiver"):
        return "a client would look for the queue, and not make it"
    return _in_groups(trial, queue, header)


_GROUPS = "'qpid.group_header_key': '{header}', 'qpid.shared_msg_group': 1"


def _address(pattern: str) -> Callable[[str, str], str]:
    return lambda queue, header: f"{queue}; " + pattern.replace("{header}", header)


add_task(
    "group_address",
    _group_address,
    misconceptions={
        "x-declare takes the arguments itself": (
            _address("{create: always, node: {x-declare: {" + _GROUPS + "}}}"),
            lambda address: "x-declare" in address and "arguments" not in address,
        ),
        "arguments belong to the node": (
            _address("{create: always, node: {arguments: {" + _GROUPS + "}}}"),
            lambda address: "x-declare" not in address,
        ),
        "an address makes its queue by itself": (
            _address("{node: {x-declare: {arguments: {" + _GROUPS + "}}}}"),
            lambda address: "create" not in address,
        ),
        "keys need no quotes": (
            _address(
                "{create: always, node: {x-declare: {arguments: {qpid.group_header_key: '{header}', "
                "qpid.shared_msg_group: 1}}}}"
            ),
            lambda address: "'qpid." not in address and '"qpid.' not in address,
        ),
    },
)


def _group_line(answer: Callable[[str, str], str], queue: str, header: str) -> str:
    trial = Trial()
    declaration = declare_line(trial, answer(queue, header), queue)
    return declaration if isinstance(declaration, str) else _in_groups(trial, queue, header)


add_task(
    "group_line",
    _group_line,
    misconceptions={
        "the header is enough": (
            lambda queue, header: f"qpid-config add queue {queue} --group-header={header}",
            lambda line: "--group-header" in line and "--shared-groups" not in line,
        ),
        "sharing is enough": (
            lambda queue, header: f"qpid-config add queue {queue} --shared-groups",
            lambda line: "--shared-groups" in line and "group" not in line.replace("--shared-groups", ""),
        ),
        "the broker's keys are the tool's options": (
            lambda queue, header: (
                f"qpid-config add queue {queue} --group_header_key={header} --shared_msg_group=1"
            ),
            lambda line: "header_key" in line or "msg_group" in line,
        ),
        "shared groups take a value": (
            lambda queue, header: f"qpid-config add queue {queue} --group-header={header} --shared-groups=1",
            lambda line: "--shared-groups=" in line,
        ),
    },
)
