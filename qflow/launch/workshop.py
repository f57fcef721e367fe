"""``qflow workshop``: a folder with everything for a workshop in a room without a network.

It holds wheels, chapters, the site, a page for the teacher, and one script that installs, checks and starts
qflow on each laptop.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from qflow.arguments import add_several, words_of
from qflow.kit import DISTRIBUTION, MADE_FOR, RefusalError
from qflow.launch import cargo, site
from qflow.launch.chapters import copy_all_chapters
from qflow.launch.room import start

_FOLDER = "qflow-workshop"
_SYSTEMS: dict[str, tuple[str, ...]] = {
    "here": (),
    "linux": ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64"),
    "windows": ("win_amd64",),
    "macos-arm": ("macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64"),
    "macos-intel": ("macosx_13_0_x86_64", "macosx_11_0_x86_64", "macosx_10_12_x86_64"),
}
"""The platform tags that pip knows for each kind of laptop; ``here`` is a machine like this one."""

_EXTRAS = ("spark", "live")
"""The extras of qflow that chapters 13 (Spark) and 15 (real clients) need in addition."""

_HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
_SYSTEM: str = start.system_name()  # type: ignore[no-untyped-call]


def prepare(
    folder: Path,
    *,
    systems: Sequence[str] = ("here",),
    pythons: Sequence[str] = (),
    extras: Sequence[str] = (),
    with_site: bool = True,
) -> Path:
    """Fill a folder with all that a workshop needs, for the given kinds of laptop and versions of Python."""
    pythons = pythons or (_HERE,)
    kinds = [(system, python) for system in systems for python in pythons]
    if extras and ("here", _HERE) not in kinds:
        # Spark and Proton are published as sources only. The wheel of Spark built here fits all laptops.
        kinds.insert(0, ("here", _HERE))
    if "live" in extras and len(kinds) > 1:
        raise RefusalError(
            "Proton, which chapter 15 needs, is compiled for laptops and a Python like this one only: "
            f"leave out live, or --for and --python (this is Python {_HERE} on {_SYSTEM})."
        )
    if "live" in extras and os.name != "nt" and not shutil.which("cc"):
        raise RefusalError(
            "Proton, which chapter 15 needs, is compiled, and there is no C compiler (cc) here."
        )
    cargo.find_checkout()
    cargo.require_pip()
    if with_site:
        site.check_ready(folder / "site")
    # Mark the folder first, so that another attempt may reuse it if the network fails during this one.
    cargo.claim(folder, "workshop")
    for name in ("start.py", "teacher.html"):
        (folder / name).write_bytes(files("qflow.launch").joinpath("room", name).read_bytes())
    wheels = folder / "wheels"
    site.report_step("qflow's own wheels")
    cargo.build_wheel(wheels)
    for system, python in kinds:
        site.report_step(f"the packages that qflow needs, for {system} and Python {python}")
        fetch(wheels, system, python, extras)
    fits = dict.fromkeys((_SYSTEM if system == "here" else system, python) for system, python in kinds)
    made = {"for": list(fits), "with": list(extras)}
    (folder / MADE_FOR).write_text(json.dumps(made), encoding="utf-8")
    site.report_step("chapters")
    copy_all_chapters(folder / "notebooks")
    if with_site:
        site.build(folder / "site")
    return folder


def fetch(wheels: Path, system: str, python: str, extras: Sequence[str] = ()) -> None:
    """Fetch the wheels that qflow and its extras need on a kind of laptop with a version of Python."""
    if system not in _SYSTEMS:
        raise RefusalError(f"The kind of laptop must be one of {', '.join(_SYSTEMS)}; got {system!r}.")
    # For the first patch release of a version: what pip chooses for 3.11.7 may not fit Debian's 3.11.2.
    kind = [f"--platform={name}" for name in _SYSTEMS[system]] + [f"--python-version={python}.0"]
    download = ["download", "--dest", str(wheels), "--only-binary=:all:", *kind]
    is_here = (system, python) == ("here", _HERE)
    _ask_pip(wheels, download, () if is_here else extras)
    if is_here and extras:
        # Build source packages now, as the laptops have no network, and perhaps no compiler. pip builds for
        # this exact Python, so it is constrained to the versions that fit the first patch release.
        held = wheels / "held.txt"
        held.write_text("\n".join(_versions(wheels)), encoding="utf-8")
        _ask_pip(wheels, ["wheel", "--wheel-dir", str(wheels), "--constraint", str(held)], extras)
        held.unlink()


def _ask_pip(wheels: Path, asks: Sequence[str], extras: Sequence[str]) -> None:
    """Let pip fetch or build what qflow's extras need, from the folder alone if it holds everything."""
    (own,) = wheels.glob(cargo.OWN)
    wanted = f"{DISTRIBUTION}[{','.join(('lab', *extras))}] @ {own.as_uri()}"
    command = [sys.executable, "-m", "pip", *asks, "--quiet", "--find-links", str(wheels)]
    try:
        cargo.run([*command, "--no-index", wanted])
    except RefusalError:
        cargo.run([*command, wanted])


def _versions(wheels: Path) -> list[str]:
    """Return ``name==version`` for each package with a wheel in a folder, except qflow's own."""
    found = (path.name.split("-")[:2] for path in sorted(wheels.glob("*.whl")) if not path.match(cargo.OWN))
    return [f"{name}=={version}" for name, version in dict(found).items()]


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``workshop`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "workshop",
        description="Wheels, chapters, the site, a page for the teacher, and a script for each laptop.",
    )
    several, kinds = "; may be given several times", ", ".join(_SYSTEMS)
    parser.add_argument("--out", metavar="FOLDER", default=_FOLDER, help=f"default: ./{_FOLDER}")
    kind = f"a kind of laptop: {kinds}{several}"
    add_several(parser, "--for", "SYSTEM", kind, dest="systems", choices=_SYSTEMS)
    version = f"a version of Python that the laptops have{several}"
    add_several(parser, "--python", "3.N", version, dest="pythons", type=_python)
    more = "what chapter 13 (spark) and chapter 15 (live) need, too: some 560 MB more"
    parser.add_argument(
        "--with", dest="extras", type=words_of(_EXTRAS), metavar="spark,live", default=[], help=more
    )
    parser.add_argument("--no-site", dest="site", action="store_false", help="leave the site out")


def _python(text: str) -> str:
    if re.fullmatch(r"3\.[1-9][0-9]", text) and text >= "3.11":
        return text
    raise argparse.ArgumentTypeError(f"a version of Python is 3.11 or later, such as {_HERE}, got {text!r}")


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow workshop``; return the exit status."""
    asked = {"pythons": chosen.pythons, "extras": chosen.extras, "with_site": chosen.site}
    folder = prepare(Path(chosen.out).absolute(), systems=chosen.systems or ["here"], **asked)
    made = json.loads((folder / MADE_FOR).read_text(encoding="utf-8"))["for"]
    print(f"The workshop is in {folder} ({cargo.megabytes(folder):.0f} MB).")
    named = ", ".join(f"Python {python} on {system}" for system, python in made)
    print(f"It is made for {named}; for other laptops there are --for and --python.")
    print("Read teacher.html first; each laptop runs: python3 start.py --check")
    return 0
