"""Share: short tokens that open the same lab at the same instant in another notebook.

A token contains the name of a lab, its settings, the instant, and a hash of the engine that made the picture:
with another engine the picture may differ, and the lab says so. A token may come from anybody, in a chat or a
mail, so nothing in it is trusted. Its size is limited, each value is checked, and it may name a file of the
reader's machine only if the reader allows it; the recordings of the kit are always allowed.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from qflow.broker.errors import AmqpException
from qflow.broker.options import convert, read_options
from qflow.kit import RefusalError, kit_path
from qflow.labs.picture import Comparison, Picture
from qflow.rooms import origins
from qflow.workload.attributes import is_name, is_whole

LABS = (
    *(
        name.removesuffix("_lab")
        for name, module in origins(import_module("qflow.labs")).items()
        if module == "qflow.labs.experiments" and name.endswith("_lab")
    ),
    *("state_space", "group", "completion", "config", "trace"),
)
"""The labs that a token can open: all experiments, and others that are safe with settings from strangers."""

_FILES = {"trace": ("path", "workload")}
"""The names of those settings of a lab that are paths of files."""

_MARK = "qf1."
_MOST = 1_000_000
"""The most bytes that a token may decompress to, including the moves made in its lab."""
_MOST_MESSAGES, _LONGEST = 20_000, 10_000
"""The most messages of a run, and the most entries or characters of any other setting, in a token."""
_KINDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("lab", is_name, "a name"),
    ("settings", lambda value: isinstance(value, dict), "a map"),
    ("time", lambda value: is_whole(value, 0), "a whole number of microseconds from 0"),
    ("steps back", lambda value: is_whole(value, 0), "a whole number from 0"),
    ("engine", is_name, "its hash"),
)
"""The values of a token in their order, each with its name, a check, and a description of what is allowed."""


@cache
def _engine_hash() -> str:
    """Return the first twelve hexadecimal digits of a hash of the source of the engine and workloads."""
    digest = sha256()
    for room in ("qflow.broker", "qflow.workload"):
        found = (item for item in files(room).iterdir() if item.name.endswith(".py"))
        for source in sorted(found, key=lambda item: str(item.name)):
            # Read as text, so that the hash is the same in a checkout whose lines end in CRLF.
            digest.update(source.name.encode() + b"\0" + source.read_text("utf-8").encode())
    return digest.hexdigest()[:12]


class TokenError(RefusalError):
    """An invalid token, or a valid one that cannot be opened here; the message says why."""


def _unpack(body: str) -> bytes:
    # A few bytes may decompress to gigabytes, so the size is limited during decompression.
    unpacking = zlib.decompressobj()
    plain = unpacking.decompress(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), _MOST)
    if not unpacking.eof:
        raise ValueError("cut off, or larger than a token can be")
    return plain


def _shorten(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


@dataclass(frozen=True)
class Token:
    """The content of a token: a lab, its settings, the instant, and the hash of the engine."""

    lab: str
    settings: Mapping[str, Any]
    # The time in microseconds, and the number of steps back from the last step at that time.
    time: int = 0
    back: int = 0
    engine: str = field(default_factory=_engine_hash)

    def text(self) -> str:
        """Return the token as text, in letters, digits, ``-`` and ``_``, which survive a chat or a mail."""
        values = [self.lab, dict(self.settings), self.time, self.back, self.engine]
        plain = json.dumps(values, separators=(",", ":")).encode()
        return _MARK + base64.urlsafe_b64encode(zlib.compress(plain, 9)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Token:
        """Return the content of a token; raise TokenError if the text is malformed or truncated."""
        text = text.strip()
        if not text.startswith(_MARK):
            raise TokenError(f"this is no token of a lab: it does not begin with {_MARK!r}")
        try:
            values = json.loads(_unpack(text.removeprefix(_MARK)))
        # RecursionError: a short token may contain brackets nested so deeply that they exhaust the stack.
        except (ValueError, RecursionError, zlib.error):
            values = None
        if not isinstance(values, list) or len(values) != len(_KINDS):
            raise TokenError("this token is not whole: copy all of it, from the first letter to the last")
        lab, settings, time, back, engine = values
        if lab not in LABS:
            raise TokenError(
                f"this token is of a lab {_shorten(repr(lab))}; here there are {', '.join(LABS)}"
            )
        for value, (what, holds, allowed) in zip(values, _KINDS, strict=True):
            if not holds(value):
                raise TokenError(f"this token's {what} must be {allowed}, got {_shorten(repr(value))}")
        _check_work(settings)
        return cls(lab, settings, time, back, engine)

    def difference(self) -> str:
        """Return a sentence if the token was made with another engine than this one, else ""."""
        if self.engine == _engine_hash():
            return ""
        return (
            f"This token was made with another engine ({self.engine}; the one here is {_engine_hash()}): "
            "the lab may differ from the one that was shared."
        )


def open_token(text: str, *, allow_files: bool = False) -> Any:
    """Open the lab of a token, at the token's instant.

    Parameters:
        text: The token.
        allow_files: Whether the token may name files of this machine. Recordings of the kit are always
            allowed.

    Returns:
        The lab. If the token was made with another engine, a sentence above the picture says so.

    Raises:
        TokenError: If the text is no token, names a file without permission, or has settings that its lab or
            the broker refuses.

    >>> lab = open_token(Token("flow", {"stop": 20, "resume": 10, "messages": 50}, time=2_000).text())
    >>> lab.sliders["stop"].value, lab.scene.place["time"]
    (20, 2000)
    >>> open_token(Token("trace", {"path": "/etc/hosts"}).text())
    Traceback (most recent call last):
        ...
    qflow.labs.share.TokenError: this token opens the file '/etc/hosts' of this machine; if you trust its \
sender, allow it: open_token(text, allow_files=True)
    """
    token = Token.read(text)
    try:
        settings = _check(token, allow_files)
        lab = getattr(import_module("qflow.labs"), f"{token.lab}_lab")(**settings)
    except FileNotFoundError as error:
        raise TokenError(f"the file this token is about is not here: {error.filename}") from None
    except RefusalError:
        raise
    except AmqpException as error:
        raise TokenError(f"the broker here refuses the settings of this token: {error}") from error
    except Exception as error:  # settings may come from anywhere; the lab's error is shown in a sentence
        said = _shorten(" ".join(str(error).split()) or type(error).__name__, 300)
        raise TokenError(f"the lab of this token is another one here: {said}") from error
    lab.go_to(token)
    return lab


def site_address() -> str:
    """Return the address of the site's first page for links, from ``QFLOW_SITE``, or "" if it is not set."""
    site = os.environ.get("QFLOW_SITE", "").rstrip("/")
    return f"{site}/index.html" if site and not site.endswith(".html") else site


def run_of_token(text: str) -> tuple[Token, Picture | Comparison]:
    """Return the content of a token, and the picture that its lab would show; it needs no widgets."""
    token = Token.read(text)
    settings = _check(token, allow_files=False)
    try:
        run = getattr(import_module("qflow.labs"), f"{token.lab}_run")
        shown = run(**settings)
    except Exception as error:  # settings may come from anywhere; the run's error is shown in a sentence
        raise TokenError(f"this link's lab opens in a notebook only ({error})") from error
    if not isinstance(shown, Picture | Comparison):
        raise TokenError("this link's lab opens in a notebook only: it shows no run")
    return token, shown


def share_path(path: str | Path) -> str:
    """Return a path as a token contains it; that of a recording of the kit is relative to the kit."""
    whole, kit = Path(path).resolve(), kit_path("data").resolve()
    return whole.relative_to(kit).as_posix() if whole.is_relative_to(kit) else str(path)


def _check(token: Token, allow_files: bool) -> dict[str, Any]:
    """Return a token's settings with the paths of files here; raise TokenError for a forbidden file."""
    settings = dict(token.settings)
    recordings = (kit_path("data") / "recordings").resolve()
    for name in _FILES.get(token.lab, ()):
        if isinstance(settings.get(name), str):
            # Resolve the path before comparing it, as ".." and symbolic links may lead out of the folder.
            shipped = (recordings.parent / settings[name]).resolve()
            if shipped.is_relative_to(recordings):
                settings[name] = str(shipped)
            elif not allow_files:
                raise _not_allowed(settings[name])
    # The option --config of qpidd names a file, too, which would be read.
    if token.lab == "config" and not allow_files:
        options = read_options(str(settings.get("broker_options", "")).split(), {}, check=convert)
        if "config" in options:
            raise _not_allowed(options["config"].text)
    return settings


def _check_work(settings: dict[str, Any]) -> None:
    """Refuse settings that would take minutes to run, such as a million messages."""
    for name, value in settings.items():
        if isinstance(value, str | list | dict) and len(value) > _LONGEST:
            raise TokenError(
                f"this token's {name} has {len(value):,} entries; at most {_LONGEST:,} are opened"
            )
        if name == "messages" and isinstance(value, int | float) and value > _MOST_MESSAGES:
            asked = _shorten(f"{value:,}")
            raise TokenError(f"this token asks for {asked} messages; at most {_MOST_MESSAGES:,} are run")


def _not_allowed(path: str) -> TokenError:
    return TokenError(
        f"this token opens the file {_shorten(repr(path))} of this machine; if you trust its sender, allow "
        "it: open_token(text, allow_files=True)"
    )
