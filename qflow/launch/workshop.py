"""``qflow workshop``: a folder for a room without network.

Everything is in it: wheels, chapters, the site, a page for the teacher, and one script that installs, checks
and starts qflow on each laptop.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from qflow.kit import DISTRIBUTION, RefusalError, kit_path
from qflow.launch import cargo, site
from qflow.launch.chapters import lay_out

DEFAULT_FOLDER = "qflow-workshop"
_SYSTEMS: dict[str, tuple[str, ...]] = {
    "here": (),
    "linux": ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_17_x86_64"),
    "windows": ("win_amd64",),
    "macos-arm": ("macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64"),
    "macos-intel": ("macosx_13_0_x86_64", "macosx_11_0_x86_64", "macosx_10_12_x86_64"),
}
"""The kinds of laptop, and what pip calls them; ``here`` is a machine like this one."""


def prepare(
    folder: Path, *, systems: Sequence[str] = ("here",), pythons: Sequence[str] = (), with_site: bool = True
) -> Path:
    """Fill a folder for a workshop, and return it."""
    cargo.find_checkout()
    if with_site:
        site.check_ready(folder / "site")
    # First, so that the next try takes the folder for its own if the network ends this one.
    cargo.claim(folder, "workshop")
    for name in ("start.py", "teacher.html"):
        (folder / name).write_bytes(files("qflow.launch").joinpath("room", name).read_bytes())
    wheels = folder / "wheels"
    site.report_step("qflow's own wheels")
    cargo.build_wheel(wheels)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    for system in systems:
        for python in pythons or (here,):
            site.report_step(f"the packages that qflow needs, for {system} and Python {python}")
            fetch(wheels, system, python)
    site.report_step("chapters")
    chapters = folder / "notebooks"
    for room, place in (("notebooks", chapters), ("exercises", chapters / "exercises")):
        try:
            lay_out(kit_path(room), place)
        except RefusalError:
            continue
    if with_site:
        site.build(folder / "site")
    return folder


def fetch(wheels: Path, system: str, python: str) -> None:
    """Fetch what the extra ``lab`` needs on a kind of laptop, into a folder that has qflow's own wheel.

    What an earlier workshop left in the folder is enough if it fits; then the network is not asked.
    """
    if system not in _SYSTEMS:
        raise RefusalError(f"There are wheels for {', '.join(_SYSTEMS)}; got {system!r}.")
    (own,) = wheels.glob(cargo.OWN)
    options = [f"--platform={name}" for name in _SYSTEMS[system]]
    if options or python != f"{sys.version_info.major}.{sys.version_info.minor}":
        options += ["--only-binary=:all:", f"--python-version={python}"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), *options]
    wanted = f"{DISTRIBUTION}[lab] @ {own.as_uri()}"
    try:
        cargo.run([*command, "--no-index", "--find-links", str(wheels), wanted])
    except RefusalError:
        cargo.run([*command, wanted])


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``workshop`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "workshop",
        description="Wheels, chapters, the site, a page for the teacher, and a script for each laptop.",
    )
    parser.add_argument(
        "--out", metavar="FOLDER", default=DEFAULT_FOLDER, help=f"default: ./{DEFAULT_FOLDER}"
    )
    parser.add_argument(
        "--for",
        dest="systems",
        action="append",
        metavar="SYSTEM",
        choices=_SYSTEMS,
        help=f"a kind of laptop: {', '.join(_SYSTEMS)}; may be given several times",
    )
    parser.add_argument(
        "--python",
        dest="pythons",
        action="append",
        metavar="3.N",
        default=[],
        help="a version of Python that the laptops have; may be given several times",
    )
    parser.add_argument("--no-site", dest="site", action="store_false", help="leave the site out")


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow workshop``; return the exit status."""
    systems = chosen.systems or ["here"]
    folder = prepare(
        Path(chosen.out).absolute(), systems=systems, pythons=chosen.pythons, with_site=chosen.site
    )
    print(f"The workshop lies in {folder} ({cargo.megabytes(folder):.0f} MB).")
    print("Read teacher.html first; each laptop runs: python3 start.py --check")
    return 0
