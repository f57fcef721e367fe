"""This installation of qflow: its data folders, the command that reinstalls it, and the form of the engine.

A checkout (or an editable install of one) has the chapters and recordings beside the package; an installed
wheel has copies inside the package. All code that opens one of these files uses :func:`kit_path`, so that no
other module depends on how qflow was installed.

The package is named ``qflow``, but its distribution :data:`DISTRIBUTION`, because the package index has an
unrelated ``qflow``. No message may tell a user to install that one, so every message takes its command from
:func:`install_command`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import MappingProxyType
from typing import Any

from qflow.qflow_error import QflowError

# Modules that only some commands need are imported where they are used, as `qflow --help` has to be fast.

DISTRIBUTION = "qflow-kit"
"""The name of the distribution, which pip installs, that contains the package ``qflow``."""

IS_PUBLISHED = False
"""Whether the distribution is on the package index; while it is not, messages say to install a checkout."""

INTERRUPTED = 130
"""Exit status of a command that was ended by Ctrl-C."""

_PACKAGE = Path(__file__).resolve().parent
_CARRIED = _PACKAGE / "_kit"


def heed_interrupts() -> None:
    """Let SIGINT end this process even if a shell started it in the background, with SIGINT ignored."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class RefusalError(QflowError):
    """A request that cannot be fulfilled; the text gives the reason in one sentence.

    The ``qflow`` command prints the sentence and ends with status 2; a traceback would not help a learner.

    >>> try:
    ...     raise RefusalError("there is no such chapter")
    ... except RefusalError as refusal:
    ...     print(refusal)
    there is no such chapter
    """

    facts: Mapping[str, Any] = MappingProxyType({})
    """Additional members of the JSON object that ``--json`` prints for the refusal."""


def _is_checkout(folder: Path) -> bool:
    """Return whether a path is the top folder of a qflow checkout; it need not exist."""
    import tomllib

    try:
        with open(folder / "pyproject.toml", "rb") as file:
            project = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        return False
    named = project.get("project")
    return isinstance(named, dict) and named.get("name") == DISTRIBUTION


def checkout_root() -> Path | None:
    """Return the top folder of the checkout that contains this package, or None for an installed package."""
    root = _PACKAGE.parent
    return root if _is_checkout(root) else None


def nearest_checkout() -> Path | None:
    """Return the checkout around the working directory, or else the one that contains this package."""
    here = Path.cwd()
    return next((top for top in (here, *here.parents) if _is_checkout(top)), None) or checkout_root()


def kit_path(name: str) -> Path:
    """Return the path of one of the kit's data folders, however qflow was installed.

    Parameters:
        name: The folder's name at the top of a checkout: ``"notebooks"`` or ``"data"``.

    Returns:
        The path of the existing folder.

    Raises:
        RefusalError: If this installation does not contain the folder.

    >>> kit_path("recipes")
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: This installation of qflow holds no folder 'recipes'; ...
    """
    for top in (_CARRIED, checkout_root()):
        if top is not None and (top / name).is_dir():
            return top / name
    raise RefusalError(
        f"This installation of qflow holds no folder {name!r}; "
        "install it again from a complete checkout or wheel of qflow."
    )


def read_text(path: str | Path, errors: str = "strict") -> str:
    """Return a file's text, UTF-8 with or without a byte order mark; the error for UTF-16 names UTF-16."""
    content = Path(path).read_bytes()
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        reason = "this file is UTF-16, as PowerShell's > writes it; save it as UTF-8"
        raise UnicodeDecodeError("utf-8", content, 0, 2, reason)
    return content.decode("utf-8-sig", errors)


MADE_FOR = "made-for.json"
"""The name of the file in a workshop folder that tells ``start.py`` which laptops the folder was made for."""


def install_command(extra: str = "", options: str = "") -> str:
    """Return the command that reinstalls qflow with an extra, from the same origin as this installation."""
    if (Path(sys.prefix).parent / MADE_FOR).is_file():
        # A learner's laptop may have no network, so all wheels come with the workshop folder.
        brought = f"qflow workshop{f' --with {extra}' if extra in ('spark', 'live') else ''}"
        return f"a workshop folder made anew ({brought}), from whoever made this one"
    extras = f"[{extra}]" if extra else ""
    root, origin = checkout_root(), _origin()
    folder, editable = root or origin_folder(), root is not None or "editable" in origin.get("dir_info", {})
    url, where = str(origin.get("url", "")), ""
    if folder is not None:
        target = f"{'.' if folder == Path.cwd() else folder}{extras}"
    elif "vcs_info" in origin:
        version = origin["vcs_info"]
        target = f"{DISTRIBUTION}{extras} @ {version['vcs']}+{url}@{version['commit_id']}"
    elif "archive_info" in origin and (not url.startswith("file:") or _local(url).exists()):
        target = f"{DISTRIBUTION}{extras} @ {url}"
    else:
        target = f"{DISTRIBUTION if IS_PUBLISHED else '.'}{extras}"
        where = "" if IS_PUBLISHED else ", in a checkout of qflow"
    # Double quotes, as cmd.exe of Windows does not remove single ones.
    words = ["pip install", options, "-e" if folder and editable else "", f'"{target}"{where}']
    return " ".join(filter(None, words))


def explain_missing(who: str, package: str, extra: str = "") -> str:
    """Return a sentence that names a missing package, what needs it, and the command that installs it."""
    cure = install_command(extra) if extra else f"pip install {package}"
    return f"{who} needs {package}, which is not installed; to install it: {cure}"


def origin_folder() -> Path | None:
    """Return the checkout that this package was installed from, if pip recorded one that still exists."""
    origin = _origin()
    folder = _local(str(origin["url"])) if "dir_info" in origin else None
    return folder if folder is not None and _is_checkout(folder) else None


def _origin() -> dict[str, Any]:
    """Return pip's record of the installation's origin (PEP 610), which is empty after one from an index."""
    import json
    from importlib import metadata

    try:
        noted = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return {}
    found = json.loads(noted) if noted else {}
    return found if isinstance(found, dict) else {}


def _local(url: str) -> Path:
    from urllib.request import url2pathname

    return Path(url2pathname(url.removeprefix("file://")))


def form() -> str:
    """Return the form of the engine in this installation, ``compiled`` or ``pure Python``."""
    folder = _PACKAGE / "broker"
    is_compiled = any((folder / f"queue{suffix}").is_file() for suffix in EXTENSION_SUFFIXES)
    return "compiled" if is_compiled else "pure Python"
