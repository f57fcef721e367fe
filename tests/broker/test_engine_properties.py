"""What holds whatever clients do: Hypothesis drives the engine, a ledger or a model watches it.

The whole engine, with all its commands, is driven under these eyes by tests/fuzz.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from ledger import Ledger
from support import Bench, Reader

from qflow.broker.completions import RangeSet

# Flow control at any thresholds, with the ledger beside it


def thresholds() -> st.SearchStrategy[tuple[int, int]]:
    """Stop and resume of one unit: resume at most stop; without stop, any residue."""
    return st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(
        lambda pair: not pair[0] or pair[1] <= pair[0]
    )


FLOW_MOVES = st.one_of(
    st.tuples(
        st.just("send"),
        st.sampled_from(["p", "r"]),
        st.sampled_from([("x",), ("y",), ("x", "y")]),
        st.sampled_from([100, 100, 200, 150]),
    ),
    st.tuples(st.sampled_from(["take", "take", "purge"]), st.sampled_from(["x", "y"])),
    st.tuples(
        st.sampled_from(["accept", "reject", "release"]), st.sampled_from(["x", "y"]), st.integers(0, 5)
    ),
)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(thresholds(), thresholds()), min_size=2, max_size=2),
    st.lists(FLOW_MOVES, min_size=20, max_size=40),
)
def test_flow_control_at_any_thresholds(given_levels, moves):
    """FC-13, FC-14, FC-15, FC-16, FC-17, FC-18, FC-19, FC-20, CM-03: two queues, a fanout, two producers."""
    bench = Bench()
    levels: dict[str, tuple[int, int, int, int]] = {}
    ledger = Ledger(levels.__getitem__)
    bench.broker.observe(lambda event: (bench.events.append(event), ledger.take(event)))
    readers: dict[str, Reader] = {}
    taken: dict[str, list[str]] = {"x": [], "y": []}
    for name, ((stop_count, resume_count), (stop_size, resume_size)) in zip("xy", given_levels, strict=True):
        stop_size, resume_size = 100 * stop_size, 100 * resume_size
        # FC-05.2: a resume of 0 becomes stop; FC-09: that of a unit without stop stays, and takes part.
        levels[name] = (stop_count, resume_count or stop_count, stop_size, resume_size or stop_size)
        bench.declare(
            name, max_size=0, flow_stop_count=stop_count, flow_resume_count=resume_count,
            flow_stop_size=stop_size, flow_resume_size=resume_size,
        )  # fmt: skip
        bench.bind(name, "amq.fanout")
        readers[name] = bench.idle(name, f"reader of {name}")
    for move, name, *more in moves:
        if move == "send":
            queues, size = more
            exchange, key = ("", queues[0]) if len(queues) == 1 else ("amq.fanout", "")
            bench.send(key, by=name, size=size, exchange=exchange)
        elif move == "take":
            taken[name] += filter(None, [readers[name].fetch()])
        elif move == "purge":
            bench.ctl.queue_purge(name)
        elif taken[name]:
            getattr(readers[name], move)(taken[name].pop(more[0] % len(taken[name])))
        ledger.end_command()
        ledger.check(bench.broker)


# Message groups against a model straight from the rule book's text


class NaiveGroups:
    """MG-06 … MG-10, MG-16, MG-20: messages, each perhaps held; a group belongs to who holds of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.messages: dict[str, str] = {}
        self.holder: dict[str, str] = {}
        self.redelivered: set[str] = set()

    def owner(self, group: str) -> str:
        return next((self.holder[m] for m, g in self.messages.items() if g == group and m in self.holder), "")

    def send(self, label: str, group: str) -> None:
        while self.limit and len(self.messages) >= self.limit:
            self.remove(next(iter(self.messages)))
        self.messages[label] = group

    def fetch(self, consumer: str) -> str:
        for label, group in self.messages.items():
            if label not in self.holder and self.owner(group) in ("", consumer):
                self.holder[label] = consumer
                return label
        return ""

    def remove(self, label: str) -> None:
        self.messages.pop(label, None)
        self.holder.pop(label, None)

    def release(self, label: str) -> None:
        self.holder.pop(label, None)

    def close(self, consumer: str) -> None:
        self.holder = {label: who for label, who in self.holder.items() if who != consumer}

    def purge(self) -> None:
        for label in [label for label in self.messages if label not in self.holder]:
            self.remove(label)

    def state(self) -> dict[str, tuple[int, str]]:
        counts = Counter(self.messages.values())
        return {group: (count, self.owner(group)) for group, count in counts.items()}


CONSUMERS = ["c1", "c2", "c3"]
GROUP_MOVES = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("ABC")),
    st.tuples(st.just("fetch"), st.sampled_from(CONSUMERS)),
    st.tuples(st.just("fetch"), st.sampled_from(CONSUMERS)),
    st.tuples(
        st.sampled_from(["accept", "reject", "release"]), st.sampled_from(CONSUMERS), st.integers(0, 5)
    ),
    st.tuples(st.sampled_from(["close", "resubscribe"]), st.sampled_from(CONSUMERS)),
    st.tuples(st.just("purge"), st.just("")),
)


@settings(max_examples=150)
@given(st.sampled_from([0, 0, 3, 5]), st.lists(GROUP_MOVES, min_size=20, max_size=50))
def test_groups_against_a_naive_model(limit, moves):
    """MG-06, MG-07, MG-08, MG-09, MG-10, MG-11, MG-15, MG-16, MG-18, MG-19, MG-20: three that fetch."""
    bench = Bench()
    bench.group("q", **({"policy_type": "ring", "max_count": limit} if limit else {}))
    naive = NaiveGroups(limit)
    readers = {name: bench.idle("q", name) for name in CONSUMERS}
    taken: dict[str, list[str]] = {name: [] for name in CONSUMERS}
    number = 0
    for move, name, *more in moves:
        if move == "send":
            number += 1
            bench.send_groups("q", f"{name}-{number}")
            naive.send(f"{name}-{number}", name)
        elif move == "fetch":
            label = naive.fetch(f"{name}::s")
            assert readers[name].fetch() == label
            if label:
                taken[name].append(label)
        elif move == "close":
            readers[name].session.close()
            naive.close(f"{name}::s")
            taken[name].clear()
            bench.broker.session(name)
            readers[name] = bench.idle("q", name)
        elif move == "resubscribe":
            readers[name].cancel()
            readers[name] = bench.idle("q", name)
        elif move == "purge":
            bench.ctl.queue_purge("q")
            naive.purge()
        elif taken[name]:
            label = taken[name].pop(more[0] % len(taken[name]))
            getattr(readers[name], move)(label)
            if move == "release":
                naive.release(label)
            else:
                naive.remove(label)
        assert bench.owners("q") == naive.state()
        assert bench.stat("q").messageCount == len(naive.messages) - len(naive.holder)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 30)))
def test_range_set_against_a_set(numbers):
    """CM-04: the same members, in disjoint ranges that do not touch."""
    ranges, members = RangeSet(), set()
    for number in numbers:
        ranges.add(number)
        members.add(number)
        assert (list(ranges), len(ranges)) == (sorted(members), len(members))
        pairs = ranges.ranges()
        assert all(last + 1 < first for (_, last), (first, _) in zip(pairs, pairs[1:], strict=False))
        assert str(ranges) == " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in pairs)
        assert [one in ranges for one in range(32)] == [one in members for one in range(32)]
        assert RangeSet.of(pairs) == ranges != RangeSet.of([*pairs, (40, 40)])
