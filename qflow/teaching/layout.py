"""Laying the chapters out in a learner's folder, never over the learner's own work.

A wheel keeps its chapters inside the installed package, where nobody should edit them. So they are copied
out, and a small register in the folder remembers what was copied. A file that still is as it was copied may
be brought up to date by a newer qflow; a file that was changed since belongs to the learner and stays.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from qflow.kit import RefusalError

REGISTER = ".qflow-chapters.json"

# What authors and tools keep beside the chapters, and learners have no use for.
_NOT_FOR_LEARNERS = {"sources", ".ipynb_checkpoints", "__pycache__", REGISTER}


@dataclass(frozen=True)
class Layout:
    """What laying out did: the folder, and the files by what became of them.

    Parameters
    ----------
    folder
        Where the chapters lie.
    added, refreshed, kept
        Files newly copied, brought up to date, and left as the learner changed them; relative to `folder`.
    what
        What they are, ``"chapters"`` or ``"exercises"``.
    """

    folder: Path
    added: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    what: str = "chapters"

    def sentences(self) -> list[str]:
        """Say in plain sentences what was done.

        Returns
        -------
        list of str
            One sentence for each thing done; never empty.

        Examples
        --------
        >>> for sentence in Layout(Path("here"), kept=["01-thresholds.ipynb"]).sentences():
        ...     print(sentence)
        The chapters lie in here.
        Left as you changed them: 01-thresholds.ipynb (rename or delete a file to get the kit's own again).
        """
        said = [f"The {self.what} lie in {self.folder}."]
        if self.added:
            said = [f"Laid the {self.what} out in {self.folder}: {', '.join(self.added)}."]
        if self.refreshed:
            said.append(f"Brought up to date: {', '.join(self.refreshed)}.")
        if self.kept:
            names = ", ".join(self.kept)
            said.append(
                f"Left as you changed them: {names} (rename or delete a file to get the kit's own again)."
            )
        return said


def lay_out(source: Path, folder: Path, *, what: str = "chapters") -> Layout:
    """Copy the chapters into a folder; a second time, only add and refresh what the learner did not touch.

    Parameters
    ----------
    source
        The kit's folder of chapters.
    folder
        The learner's folder; it is made if it does not exist.
    what
        What they are, for the sentences.

    Returns
    -------
    Layout
        What became of every file.

    Raises
    ------
    RefusalError
        If the folder cannot be made or written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as scratch:
    ...     kit = Path(scratch, "kit")
    ...     kit.mkdir()
    ...     _ = (kit / "01-thresholds.ipynb").write_text("{}")
    ...     mine = Path(scratch, "mine")
    ...     first = lay_out(kit, mine).added
    ...     _ = (mine / "01-thresholds.ipynb").write_text("my notes")
    ...     second = lay_out(kit, mine)
    ...     (first, second.added, second.kept, (mine / "01-thresholds.ipynb").read_text())
    (['01-thresholds.ipynb'], [], ['01-thresholds.ipynb'], 'my notes')
    """
    layout = Layout(folder, what=what)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        register = _read_register(folder)
        for name in sorted(_files(source)):
            register[name] = _place(source / name, folder / name, name, register.get(name), layout)
        _write(folder / REGISTER, json.dumps(register, indent=1, sort_keys=True).encode() + b"\n")
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise RefusalError(
            f"Cannot lay the {what} out in {folder} ({reason.lower()}); "
            "choose another folder with --dir FOLDER."
        ) from problem
    return layout


def _place(origin: Path, target: Path, name: str, copied: str | None, layout: Layout) -> str:
    """Put one file in its place if that harms nothing; return the digest of what the kit last put there."""
    content = origin.read_bytes()
    new = _digest(name, content)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(target, content)
        layout.added.append(name)
        return new
    present = _digest(name, target.read_bytes())
    if present == new:
        return new
    if present != copied:
        layout.kept.append(name)
        return copied or ""
    _write(target, content)
    layout.refreshed.append(name)
    return new


def _files(source: Path) -> Iterator[str]:
    for path in source.rglob("*"):
        relative = path.relative_to(source)
        if path.is_file() and not _NOT_FOR_LEARNERS.intersection(relative.parts):
            yield relative.as_posix()


def _read_register(folder: Path) -> dict[str, str]:
    try:
        register = json.loads((folder / REGISTER).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return register if isinstance(register, dict) else {}


def _write(target: Path, content: bytes) -> None:
    # By way of a second file, so that an interrupted copy never leaves half a chapter behind.
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(content)
    os.replace(partial, target)


def _digest(name: str, content: bytes) -> str:
    # JupyterLab saves a chapter anew as soon as it is opened: other outputs, other metadata. What a learner
    # wrote is in the cells.
    if name.endswith(".ipynb"):
        try:
            cells = json.loads(content)["cells"]
            written = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
            content = json.dumps(written).encode()
        except (ValueError, KeyError, TypeError):
            pass  # not a notebook any more, so its bytes are what counts
    return hashlib.sha256(content).hexdigest()
