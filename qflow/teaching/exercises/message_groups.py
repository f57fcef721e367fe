"""Exercises on message groups and the consumers that share a queue: delivery, wake-ups and release."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import Any

from qflow.broker import BYTE_UNIT, INFINITE, MESSAGE_UNIT, BrokerOptions, Message
from qflow.teaching.exercise import FINE, Answer, design_task, exercise
from qflow.teaching.trial import GROUP, Trial, fill_groups


def group_of(label: str) -> str:
    """Return the group of a message: the part of its label before the hyphen."""
    return label.partition("-")[0]


@exercise(
    misconceptions={
        "first come, first served": lambda labels, first_accepts: next(iter(labels[1:]), None),
        "a blocked group blocks the queue": lambda labels, first_accepts: next(
            (label for label in labels[1:2] if first_accepts or group_of(label) != group_of(labels[0])), None
        ),
        "once an owner, always the owner": lambda labels, first_accepts: next(
            (label for label in labels[1:] if group_of(label) != group_of(labels[0])), None
        ),
    },
)
def _second_gets(labels: list[str], first_accepts: bool) -> str | None:
    trial = fill_groups(labels)
    first, second = trial.reader("q", "first"), trial.reader("q", "second")
    first.fetch()
    if first_accepts:
        first.accept()
    return second.fetch()


def _by_groups(labels: list[str], first: int, second: int, whole: bool) -> tuple[list[str], list[str]]:
    mine = labels[:first]
    owned = {group_of(label) for label in mine}
    if whole:
        mine = [label for label in labels if group_of(label) in owned]
    rest = [label for label in labels if group_of(label) not in owned]
    return mine, rest[:second]


def _until_blocked(labels: list[str], first: int) -> list[str]:
    """Return the messages after the first ones, up to one of a group that occurs among the first ones."""
    owned = {group_of(label) for label in labels[:first]}
    return list(takewhile(lambda label: group_of(label) not in owned, labels[first:]))


@exercise(
    misconceptions={
        "an owner gets the whole group": partial(_by_groups, whole=True),
        "a blocked group blocks the queue": lambda labels, first, second: (
            labels[:first],
            _until_blocked(labels, first)[:second],
        ),
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
def _shares(labels: list[str], first_prefetch: int, second_prefetch: int) -> tuple[list[str], list[str]]:
    trial = fill_groups(labels)
    first = trial.reader("q", "first", first_prefetch)
    second = trial.reader("q", "second", second_prefetch)
    return first.got, second.got


def _follow(
    held: int,
    actions: list[str],
    more: int,
    given_back: tuple[str, ...] = ("release",),
    needs_all: bool = True,
    at_end: bool = False,
) -> list[str]:
    """Return the messages that the next owner gets under a misconception: returned ones, then later ones."""
    if needs_all and len(actions) < held:
        return []
    back = [f"A-{n}" for n, action in enumerate(actions, 1) if action in given_back]
    later = [f"A-{held + n}" for n in range(1, more + 1)]
    return later + back if at_end else back + later


@exercise(
    misconceptions={
        "a release goes to the end": partial(_follow, at_end=True),
        "the first accept frees the group": partial(_follow, needs_all=False),
        "a rejected message comes back": partial(_follow, given_back=("release", "reject")),
        "a released message is lost": partial(_follow, given_back=()),
    },
)
def _next_gets(held: int, actions: list[str], more: int) -> list[str]:
    labels = [f"A-{n}" for n in range(1, held + more + 1)]
    trial = fill_groups(labels)
    first = trial.reader("q", "first")
    first.fetch(held)
    for label, action in zip(labels, actions, strict=False):
        getattr(first, action)(label)
    second = trial.reader("q", "second")
    while second.fetch() is not None:
        pass
    return [label.rstrip("*") for label in second.got]


@design_task(
    misconceptions={
        "release this one, accept the rest": lambda consumer, held, target: (
            consumer.release(target),
            [consumer.accept(label) for label in held if label != target],
        ),
        "accept it anyway": lambda consumer, held, target: consumer.accept(*held),
        "release this one and keep the rest": lambda consumer, held, target: consumer.release(target),
        "reject everything": lambda consumer, held, target: consumer.reject(*held),
        "the broker hears nothing": lambda consumer, held, target: None,
    },
)
def _give_up(answer: Answer, held: int, failing: int) -> str:
    labels = [f"A-{n}" for n in range(1, held + 3)]
    trial = fill_groups(labels)
    first = trial.reader("q", "first")
    first.fetch(held)
    mine, target = labels[:held], labels[failing - 1]
    if failing > 1:
        first.accept(*mine[: failing - 1])
    answer(first, mine[failing - 1 :], target)
    if first.holds:
        return f"{', '.join(first.holds)} is neither accepted nor released, so the group waits for ever"
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


def _text(value: object, default: str) -> str:
    return default if value is None or value == "" else str(value)


@exercise(
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
def _group_id(headers: dict[str, Any], key: str, default: str) -> str:
    trial = Trial(BrokerOptions(default_message_group=default)).declare(
        "q", group_header_key=key, shared_msg_group=1
    )
    trial.producer.message_transfer(Message(10, "q", headers=headers))
    return str(trial.groups("q")[0]["group_id"])


def _believed_wake_up(steps: list[str], wakers: set[str]) -> list[str]:
    """Return the messages that the idle consumer gets if only the steps in `wakers` wake it."""
    queue, got, is_owned = ["A-1", "A-2"], [], True
    for step in steps:
        if step in ("owner accepts", "owner rejects"):
            queue, is_owned = [label for label in queue if label != "A-1"], False
        elif step == "owner releases":
            is_owned = False
        elif step.endswith("arrives"):
            queue.append(step.split()[0])
        if step in wakers:
            found = [label for label in queue if not (is_owned and label.startswith("A"))]
            got += found
            queue = [label for label in queue if label not in found]
    return got


_ARRIVALS = {"B-1 arrives", "A-3 arrives"}


@exercise(
    misconceptions={
        "an accept wakes the others": partial(
            _believed_wake_up, wakers=_ARRIVALS | {"owner accepts", "owner rejects", "owner releases"}
        ),
        "only arrivals wake": partial(_believed_wake_up, wakers=_ARRIVALS),
        "an idle consumer never gets them": lambda steps: ["B-1"] if "B-1 arrives" in steps else [],
        "the freed group is served last": lambda steps: sorted(
            _believed_wake_up(steps, _ARRIVALS | {"owner releases"}), key=lambda label: label[0] != "B"
        ),
    },
)
def _idle_gets(steps: list[str]) -> list[str]:
    trial = Trial().declare_groups("q")
    owner = trial.reader("q", "owner", prefetch=1)
    idle = trial.reader("q", "idle", prefetch=10)
    trial.send("q", ["A-1", "A-2"], header=GROUP)
    for step in steps:
        who, act = step.split()[:2]
        if who == "owner":
            owner.session.message_stop("owner")
            getattr(owner, act.removesuffix("s"))()
        elif act == "arrives":
            trial.send("q", [who], header=GROUP)
        else:
            idle.session.message_flow("idle", BYTE_UNIT, INFINITE)
            idle.session.message_flow("idle", MESSAGE_UNIT, 10)
    return [label.rstrip("*") for label in idle.got]


@exercise(
    misconceptions={
        "in blocks": lambda messages, consumers: [
            list(range(messages))[n * -(-messages // consumers) : (n + 1) * -(-messages // consumers)]
            for n in range(consumers)
        ],
        "the first takes all it can hold": lambda messages, consumers: [
            list(range(messages)),
            *[[] for _ in range(consumers - 1)],
        ],
        "everybody gets everything": lambda messages, consumers: [
            list(range(messages)) for _ in range(consumers)
        ],
    },
)
def _turns(messages: int, consumers: int) -> list[list[int]]:
    trial = Trial().declare("q")
    readers = [trial.reader("q", f"c{n}", prefetch=messages) for n in range(consumers)]
    trial.send("q", [str(n) for n in range(messages)])
    return [[int(label) for label in reader.got] for reader in readers]
