"""Exercises on a fleet: its components, the busiest worker, and the sum of waits."""

from __future__ import annotations

from qflow.teaching.exercise import exercise


@exercise(
    cases=(
        ([("p", "a"), ("c", "a"), ("q", "b"), ("d", "b")],),
        ([("p", "a"), ("p", "b"), ("c", "a"), ("d", "b")],),
        ([("p", "a"), ("q", "b"), ("c", "a"), ("c", "b"), ("r", "x")],),
        ([("p", "a"), ("p", "b"), ("q", "b"), ("q", "c"), ("r", "c"), ("r", "d")],),
        ([("p", "a"), ("p", "b"), ("q", "c"), ("q", "d"), ("r", "e"), ("s", "e")],),
        ([("d", "r"), ("c", "q"), ("d", "q"), ("e", "z")],),
    ),
    misconceptions={
        "each queue for itself": lambda touches: len({queue for _, queue in touches}),
        "each client for itself": lambda touches: len({client for client, _ in touches}),
        "only neighbours count": lambda touches: len(
            {frozenset(q for c, q in touches if c == client) for client, _ in touches}
        ),
    },
)
def _how_many_parts(touches: list[tuple[str, str]]) -> int:
    from qflow.logs.components import components_of  # its import takes longer than all other exercises

    return len(set(components_of(("log", client, queue) for client, queue in touches).values()))


@exercise(
    misconceptions={
        "the work is shared evenly": lambda events, workers: -(-sum(events.values()) // workers),
        "the largest component is all": lambda events, workers: max(events.values()),
        "components are dealt out like cards": lambda events, workers: max(
            sum(list(events.values())[n::workers]) for n in range(workers)
        ),
    },
)
def _busiest_worker(events: dict[str, int], workers: int) -> int:
    from qflow.spark.lake import pack  # imported here for the same reason

    loads = [0] * workers
    for component, worker in pack(events, workers).items():
        loads[worker] += events[component]
    return max(loads)


@exercise(
    cases=(
        ([(10, 30), (15, 30), (20, None)], 100),
        ([(0, 5), (5, 10)], 10),
        ([(1, None), (2, None)], 50),
        ([(3, 4)], 90),
        ([(10, 20), (10, 20), (10, 20)], 20),
        ([(0, 40), (10, 20), (90, None)], 100),
    ),
    misconceptions={
        "only what has ended counts": lambda holds, log_end: sum(
            end - begin for begin, end in holds if end is not None
        ),
        "time counts once": lambda holds, log_end: len(
            {t for b, e in holds for t in range(b, log_end if e is None else e)}
        ),
        "how often, not how long": lambda holds, log_end: len(holds),
    },
)
def _waited(holds: list[tuple[int, int | None]], log_end: int) -> int:
    return sum((log_end if end is None else end) - begin for begin, end in holds)
