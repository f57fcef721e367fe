"""Finding: what a check of this machine found, and what cures it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Verdict = Literal["good", "advice", "bad"]

SIGNS: dict[Verdict, str] = {"good": "ok     ", "advice": "advice ", "bad": "PROBLEM"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Parameters
    ----------
    subject : str
        What was looked at, such as ``"Java"``.
    verdict : str
        ``good``; ``advice``, if the kit works but something in it will not; ``bad``, if it does not work.
    found : str
        What is there, as a sentence.
    cure : str
        What to do about it, as a sentence that can be followed word for word; empty if it is good.

    Examples
    --------
    >>> print(Finding("Python", "bad", "Python 3.9.2 runs here.", "Install Python 3.11 or newer."))
    PROBLEM  Python: Python 3.9.2 runs here.
             -> Install Python 3.11 or newer.
    """

    subject: str
    verdict: Verdict
    found: str
    cure: str = ""

    def __str__(self) -> str:
        line = f"{SIGNS[self.verdict]}  {self.subject}: {self.found}"
        return f"{line}\n         -> {self.cure}" if self.cure else line

    def data(self) -> dict[str, str]:
        """Return it as JSON holds it."""
        return asdict(self)


def good(subject: str, found: str) -> Finding:
    """Return a finding that needs no cure.

    Examples
    --------
    >>> print(good("memory", "12 GB are free."))
    ok       memory: 12 GB are free.
    """
    return Finding(subject, "good", found)
