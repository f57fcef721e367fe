"""Exercises on a fleet: what belongs together, who is done last, and what waiting adds up to."""

from __future__ import annotations

from qflow.logs.components import components_of
from qflow.spark.lake import pack
from qflow.teaching.exercise import Exercise, Misconception

Touches = list[tuple[str, str]]
Holds = list[tuple[int, int | None]]


def _parts(touches: Touches) -> int:
    return len(set(components_of(("log", client, queue) for client, queue in touches).values()))


COMPONENTS = Exercise(
    "how_many_parts",
    "What belongs together",
    truth=_parts,
    cases=(
        ([("p", "a"), ("c", "a"), ("q", "b"), ("d", "b")],),
        ([("p", "a"), ("p", "b"), ("c", "a"), ("d", "b")],),
        ([("p", "a"), ("q", "b"), ("c", "a"), ("c", "b"), ("r", "x")],),
        ([("p", "a"), ("p", "b"), ("q", "b"), ("q", "c"), ("r", "c"), ("r", "d")],),
        ([("p", "a"), ("p", "b"), ("q", "c"), ("q", "d"), ("r", "e"), ("s", "e")],),
        ([("d", "r"), ("c", "q"), ("d", "q"), ("e", "z")],),
    ),
    misconceptions={
        "each queue for itself": Misconception(
            lambda touches: len({queue for _, queue in touches}),
            "two queues that one client touches belong together: what one does to it decides what it does "
            "to the other (CM-03).",
        ),
        "each client for itself": Misconception(
            lambda touches: len({client for client, _ in touches}),
            "clients of one queue share its depth, its flow state and its messages.",
        ),
        "only neighbours count": Misconception(
            lambda touches: len({frozenset(q for c, q in touches if c == client) for client, _ in touches}),
            "what hangs together over any number of steps is one part: p with b, b with q, q with c.",
        ),
    },
    hints=(
        "Draw the clients and the queues as dots, and a line for each pair.",
        "Begin with a group for each pair; whenever two groups have a member in common, join them.",
        "networkx.number_connected_components of the graph whose edges are the pairs, clients and queues "
        "distinguished.",
    ),
    rules=("CM-03",),
    lab="",
)


def _busiest(events: dict[str, int], workers: int) -> int:
    loads = [0] * workers
    for component, worker in pack(events, workers).items():
        loads[worker] += events[component]
    return max(loads)


BUSIEST = Exercise(
    "busiest_worker",
    "Who is done last",
    truth=_busiest,
    cases=(
        ({"a": 60, "b": 20, "c": 20}, 2),
        ({"a": 60, "b": 20, "c": 20}, 100),
        ({"a": 5, "b": 4, "c": 3, "d": 3, "e": 3}, 2),
        ({"a": 10, "b": 10, "c": 10}, 3),
        ({"a": 9, "b": 8, "c": 7, "d": 1}, 3),
        ({"a": 7}, 4),
        ({"a": 3, "b": 3, "c": 2, "d": 2, "e": 2}, 1),
    ),
    misconceptions={
        "the work is shared evenly": Misconception(
            lambda events, workers: -(-sum(events.values()) // workers),
            "a component is one sequence, and lies with one worker as a whole.",
        ),
        "the largest component is all": Misconception(
            lambda events, workers: max(events.values()),
            "that is the least it can be; with few workers the busiest has several components.",
        ),
        "components are dealt out like cards": Misconception(
            lambda events, workers: max(sum(list(events.values())[n::workers]) for n in range(workers)),
            "they are packed by size: the largest first, each to the worker that has least so far.",
        ),
    },
    hints=(
        "Take the components by size. Who gets the next one?",
        "The worker that has least so far. At the end, the one who has most decides.",
        "Keep a list of loads; for each size, largest first, add it to the smallest load.",
    ),
    rules=("CM-03",),
    lab="",
)


def _waited(holds: Holds, log_end: int) -> int:
    return sum((log_end if end is None else end) - begin for begin, end in holds)


WAITED = Exercise(
    "waited",
    "What waiting adds up to",
    truth=_waited,
    cases=(
        ([(10, 30), (15, 30), (20, None)], 100),
        ([(0, 5), (5, 10)], 10),
        ([(1, None), (2, None)], 50),
        ([(3, 4)], 90),
        ([(10, 20), (10, 20), (10, 20)], 20),
        ([(0, 40), (10, 20), (90, None)], 100),
    ),
    misconceptions={
        "only what has ended counts": Misconception(
            lambda holds, log_end: sum(end - begin for begin, end in holds if end is not None),
            "a transfer that is still held when the log ends has waited until then, and often the longest.",
        ),
        "time counts once": Misconception(
            lambda holds, log_end: len({t for b, e in holds for t in range(b, log_end if e is None else e)}),
            "transfers wait at the same time, each for itself: their times are added.",
        ),
        "how often, not how long": Misconception(
            lambda holds, log_end: len(holds),
            "a queue that turns ON once and stays ON costs more than one that flickers.",
        ),
    },
    hints=(
        "What do you do with a transfer that has no end?",
        "It has waited until the log's end.",
        "sum((log_end if end is None else end) - begin for begin, end in holds)",
    ),
    rules=("FC-15", "FC-17"),
    lab="",
)

EXERCISES = (COMPONENTS, BUSIEST, WAITED)
