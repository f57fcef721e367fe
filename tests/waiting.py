"""Waiting until something is so, and failing with its name if it never is; no test sleeps and hopes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

_PAUSE = 0.01


def wait_until(is_so: Callable[[], object], what: str, seconds: float = 120) -> None:
    """Look again and again until it is so; meant for what other processes do."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(_PAUSE)


async def until(is_so: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Do the same in an event loop, where the other tasks go on meanwhile."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        await asyncio.sleep(_PAUSE)


async def all_else_is_over() -> None:
    """Let every other task of the event loop come to its end."""
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.gather(*others)
