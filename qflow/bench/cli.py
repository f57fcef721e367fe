"""``qflow bench``: measure the engine on this machine."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from qflow.bench.measure import LARGEST, measure
from qflow.kit import RefusalError
from qflow.trace.progress import Line

SPARK = "qflow.spark.bench"
PEERS = (
    "  life cycle: transfer, route, deliver, accept, dequeue, complete, by the broker's rules, one by one",
    "  with trace: ten events of each message kept in columns, nobody reading them yet",
    "  SimPy store: put and get, the least that a queue can be",
    "  backlog: all messages are put on a queue, or into a Store, before the first is read",
    "  SimPy life cycle: a place in the window, put, get, accept, the place back: five Store operations",
    "  simulate: clients and broker, all events of each message kept; with trace: as text for a file, too",
    "  SimPy store with times, Ciw: the arrivals and service times of the simulated workload, and no more",
)


def add_arguments(subparsers: Any) -> None:
    """Add ``bench`` to the rooms of the command line."""
    bench = subparsers.add_parser(
        "bench",
        help="measure how fast the engine is here, and beside SimPy and Ciw where they are installed",
        description="Rates, growth, ratios and memory of one run on this machine; compare ratios, not rates. "
        "It takes some minutes; --messages and --largest make it shorter.",
    )
    bench.add_argument(
        "what", nargs="?", choices=("engine", "spark"), default="engine", help="default: engine"
    )
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    bench.add_argument("--messages", type=int, default=20_000, metavar="N", help="of each workload; from 100")
    bench.add_argument(
        "--largest", type=int, default=LARGEST, metavar="N", help="messages up to which growth is followed"
    )


def run(chosen: argparse.Namespace) -> int:
    """Carry the command out.

    Raises
    ------
    RefusalError
        If a number is too small, or the benchmark is not in this installation.
    """
    if chosen.what == "spark":
        return _spark(chosen)
    if chosen.messages < 100 or chosen.largest < 1_000:
        raise RefusalError(
            f"--messages is a number from 100 and --largest one from 1000, "
            f"got {chosen.messages} and {chosen.largest}"
        )
    line = Line()
    results = measure(chosen.messages, chosen.largest, lambda name: line.show(f"{name} ..."))
    line.end()
    print(json.dumps(results, indent=2) if chosen.json else text_of(results))
    return 0


def _spark(chosen: argparse.Namespace) -> int:
    if find_spec(SPARK) is None or find_spec("pyspark") is None:
        raise RefusalError("the benchmark of Spark needs pyspark: pip install 'qflow[spark]'")
    bench = importlib.import_module(SPARK)
    results = bench.run_bench()
    print(json.dumps(results, indent=2) if chosen.json else bench.report_text(results))
    return 0


def text_of(results: Mapping[str, Any]) -> str:
    """Return what was measured as text for people.

    Examples
    --------
    >>> print(text_of({"form": "compiled", "python": "3.11", "messages": 5, "rates": {"ring": 10.4}}))
    The engine is compiled, under Python 3.11; each workload has 5 messages.
    <BLANKLINE>
    Messages a second
      ring                                                   10
    """
    lines = [
        f"The engine is {results['form']}, under Python {results['python']}; "
        f"each workload has {results['messages']} messages."
    ]
    for key, title, form in (
        ("rates", "Messages a second", "{:,.0f}"),
        ("ratios", "Ratios of rates in this run", "{:.2f}"),
        ("milliseconds", "Milliseconds", "{:.1f}"),
        ("memory", "Memory in bytes", "{:,.0f}"),
    ):
        if key in results:
            lines += ["", title, *(_line(name, form.format(value)) for name, value in results[key].items())]
        if key == "ratios" and key in results:
            lines += ["", *PEERS]
    for name, growth in results.get("growth", {}).items():
        lines += ["", f"Microseconds a message, by {name.replace('_', ' ')}"]
        lines += [_line(f"{int(size):,}", f"{cost:.2f}") for size, cost in growth["microseconds"].items()]
        lines.append(_line("most to least", f"{growth['ratio']:.2f}"))
    return "\n".join(lines)


def _line(name: str, value: str) -> str:
    return f"  {name.replace('_', ' '):<44}{value:>13}"
