"""Command-line arguments shared by several commands: the options, their help texts and value parsers."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection
from typing import Any


def add_json(parser: argparse._ActionsContainer, result: str = "the result", **more: Any) -> None:
    """Add the option ``--json``, with which a command prints its result, or its refusal, as JSON."""
    words = f'print {result} as JSON; a refusal as {{"error": …}}'
    parser.add_argument("--json", action="store_true", help=words, **more)


def add_workload(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument ``WORKLOAD.json``, the path of a workload file."""
    parser.add_argument("workload", metavar="WORKLOAD.json", help="a workload file")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--map``, which names a log's foreign columns (see ``qflow trace import --help``)."""
    parser.add_argument(
        "--map", metavar="MEANING=COLUMN,…", help="foreign columns of a log; see qflow trace import --help"
    )


def add_several(
    parser: argparse._ActionsContainer, option: str, metavar: str, help: str, **more: Any
) -> None:
    """Add an option that may be repeated; its value is the list of all values given."""
    parser.add_argument(option, action="append", metavar=metavar, help=help, **({"default": []} | more))


def add_seed(parser: argparse.ArgumentParser, default: int | None = None) -> None:
    """Add the option ``--seed``; without a default, the workload's own seeds stay in force."""
    shown = "the workload's own" if default is None else default
    parser.add_argument(
        "--seed",
        type=int,
        default=default,
        metavar="N",
        help=f"the random seed, a whole number; the same seed gives the same run; default: {shown}",
    )


def read_digits(text: str) -> int | None:
    """Return the whole number below 2**64 that ASCII digits spell, or None for any other text."""
    # int() raises an error for thousands of digits.
    is_short = text.isascii() and text.isdecimal() and len(text) <= 20
    return int(text) if is_short and int(text) < 1 << 64 else None


def whole_number(text: str, most: int | None = None) -> int:
    """Parse a whole number from 1 to ``most``, or without an upper bound if that is None."""
    number = read_digits(text)
    if number and (most is None or number <= most):
        return number
    allowed = "a whole number from 1" if most is None else f"a whole number from 1 to {most}"
    raise argparse.ArgumentTypeError(f"must be {allowed}, got {text[:100]!r}")


def named_number(text: str, *, needs_name: bool = True) -> tuple[str, int]:
    """Parse ``NAME=N`` with a whole number N from 1; ``N`` alone, where allowed, has the name ``""``."""
    name, equals, digits = text.rpartition("=")
    number = read_digits(digits)
    if number and (name or not (equals or needs_name)):
        return name, number
    allowed = "NAME=N, N a whole number from 1" if needs_name else "a whole number from 1, or NAME=N"
    raise argparse.ArgumentTypeError(f"must be {allowed}, got {text[:100]!r}")


def named_rate(text: str) -> tuple[str, float]:
    """Parse ``NAME=N/s`` into the name and a rate above 0 in messages a second; ``/s`` is optional."""
    name, _, rate = text.rpartition("=")
    try:
        number = float(rate.removesuffix("/s"))
    except ValueError:
        number = 0.0
    if name and 0 < number < math.inf:
        return name, number
    raise argparse.ArgumentTypeError(f"must be NAME=N/s, N a number above 0, got {text[:100]!r}")


def port_number(text: str) -> int:
    """Parse the number of a TCP port, from 0 to 65535."""
    number = read_digits(text)
    if number is not None and number <= 65535:
        return number
    raise argparse.ArgumentTypeError(f"a port must be a number from 0 to 65535; got {text!r}")


def words_of(allowed: Collection[str]) -> Callable[[str], list[str]]:
    """Return a function that parses comma-separated words and refuses a word that is not allowed."""

    def read(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",")]
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(allowed)}")
        return words

    return read
