"""Exercises on message groups: who may have which message, and when."""

from __future__ import annotations

from collections.abc import Callable

from qflow.teaching.clients import Reader
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine
from qflow.teaching.exercises.bench import GROUP, Bench


def grouped_bench(labels: list[str]) -> Bench:
    """Make a bench with a grouped queue ``q`` that holds these messages; ``A-1`` is of group A."""
    bench = Bench()
    bench.grouped("q")
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
    misconceptions=(
        Misconception(
            "first come, first served",
            lambda labels, first_accepts: labels[1] if len(labels) > 1 else None,
            "on a queue with groups nobody else gets a message of a group that somebody owns (MG-07). That "
            "is "
            "what keeps remove behind add.",
        ),
        Misconception(
            "a blocked group blocks the queue",
            lambda labels, first_accepts: (
                (labels[1] if len(labels) > 1 else None)
                if first_accepts or len(labels) < 2 or group_of(labels[1]) != group_of(labels[0])
                else None
            ),
            "other groups are not held up: the second consumer gets the first message of a free group, "
            "although "
            "it stands further back (MG-10, MG-12).",
        ),
        Misconception(
            "once an owner, always the owner",
            lambda labels, first_accepts: next(
                (label for label in labels[1:] if group_of(label) != group_of(labels[0])), None
            ),
            "a group is free again once its owner has settled all it holds of it; there are no sticky groups "
            "(MG-08, MG-25).",
        ),
    ),
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
    misconceptions=(
        Misconception(
            "an owner gets the whole group",
            lambda labels, first, second: _by_groups(labels, first, second, whole=True),
            "prefetch bounds what it may hold; the rest of the group waits on the queue, for nobody else "
            "(MG-14).",
        ),
        Misconception(
            "groups do not matter to prefetch",
            lambda labels, first, second: (labels[:first], labels[first : first + second]),
            "the rest of an owned group is blocked for the second consumer (MG-07, MG-14).",
        ),
        Misconception(
            "one group for each consumer",
            lambda labels, first, second: (
                [label for label in labels if group_of(label) == group_of(labels[0])][:first],
                [label for label in labels if group_of(label) != group_of(labels[0])][:second],
            ),
            "a consumer may own several groups at once; prefetch counts all of them together (MG-14).",
        ),
    ),
    hints=(
        "The first consumer comes to an empty place: nothing is owned yet. What limits what it takes?",
        "The first takes the first N messages and owns their groups. The second takes from all other groups.",
        "first = labels[:n]; then of the labels whose group is not among those, the first m.",
    ),
    rules=("MG-07", "MG-10", "MG-14"),
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
    misconceptions=(
        Misconception(
            "a release goes to the end",
            lambda held, actions, more: (
                []
                if len(actions) < held
                else [f"A-{held + n}" for n in range(1, more + 1)]
                + [f"A-{n}" for n, a in enumerate(actions, 1) if a == "release"]
            ),
            "a released message goes back to its old place, before everything that came later (CN-14).",
        ),
        Misconception(
            "the first accept frees the group",
            lambda held, actions, more: (
                [f"A-{n}" for n, action in enumerate(actions, 1) if action == "release"]
                + [f"A-{held + n}" for n in range(1, more + 1)]
            ),
            "the group stays owned until its consumer has settled everything it holds of it (MG-08, MG-09).",
        ),
        Misconception(
            "what is rejected comes back",
            lambda held, actions, more: (
                []
                if len(actions) < held
                else [f"A-{n}" for n, a in enumerate(actions, 1) if a in ("release", "reject")]
                + [f"A-{held + n}" for n in range(1, more + 1)]
            ),
            "reject takes the message off the queue for good; that is why it keeps the order (CN-16, MG-18).",
        ),
        Misconception(
            "what is released is lost",
            lambda held, actions, more: (
                [] if len(actions) < held else [f"A-{held + n}" for n in range(1, more + 1)]
            ),
            "a released message is on the queue again, and so is processed after A-2 (MG-18).",
        ),
    ),
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
        return f"{target} was accepted although it could not be processed: nobody will ever process it"
    passed = [label for label in mine[failing:] if label not in got]
    return f"{target} is processed after {', '.join(passed)}" if passed else FINE


GIVE_UP = Exercise(
    "give_up",
    "Keep the order when you cannot go on",
    truth=fine,
    outcome=_kept_order,
    cases=((2, 1), (3, 2), (4, 1), (5, 3), (3, 1)),
    misconceptions=(
        Misconception(
            "release this one, accept the rest",
            lambda consumer, held, target: (
                consumer.release(target),
                [consumer.accept(label) for label in held if label != target],
            ),
            "then the next consumer processes it after the others, although the broker enforces the order. "
            "Release all of them, or reject the one (MG-18).",
        ),
        Misconception(
            "accept it all the same",
            lambda consumer, held, target: consumer.accept(*held),
            "accept says that the message has been processed. Nobody will get it again (CN-13).",
        ),
        Misconception(
            "release this one and keep the rest",
            lambda consumer, held, target: consumer.release(target),
            "the group stays owned as long as you hold anything of it; nobody else gets on (MG-08).",
        ),
        Misconception(
            "reject everything",
            lambda consumer, held, target: consumer.reject(*held),
            "that keeps the order, but throws away messages that could have been processed (CN-16).",
        ),
    ),
    hints=(
        "Two ways are right. One gives up the message, the other gives up nothing but time.",
        "Nothing that came after the failing message may be accepted before somebody has dealt with it.",
        "consumer.release(*held); or consumer.reject(target) and then accept the others.",
    ),
    rules=("MG-08", "MG-18", "CN-13", "CN-16"),
    shows=("G-09",),
)

EXERCISES = (SECOND_GETS, SHARES, NEXT_GETS, GIVE_UP)
