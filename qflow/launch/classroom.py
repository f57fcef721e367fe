"""``qflow class``: the guesses and exercises of a class of learners, on the teacher's screen.

The teacher's laptop serves the site to the classroom, and adds one small script to each page
(``page/room.js``). The script listens for the page's events, a guess (``qflow-prediction``) or a check of an
exercise (``qflow-exercise``), and sends them to this server in a *report*. A report names its browser by a
random number and, if the learner likes, by a name; each browser has a numbered *seat*. The teacher's screen
(``page/class.html``, at an address that only the command prints) asks for the current state every second.
The teacher can *hold* the class: learners then see no answers to a question until the teacher opens it.

Everything is kept in memory and is gone when the command ends. A laptop that loses its connection keeps what
it could not report, and gets its old seat when it is back, unless the class was full and another browser
needed the seat. A report that is sent twice counts once.

The page asks at each guess whether the class is held, and does not rely on the previous report: a learner
who answers just as the teacher ticks *hold* waits like everyone else. A script that invents browsers can
take only the few seats that one network address may have. The Host header is checked, so that a page of
another site cannot reach the class under a host name of its own.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import io
import json
import secrets
import socket
import threading
import time
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from qflow.arguments import port_number, read_digits, whole_number
from qflow.kit import RefusalError, heed_interrupts
from qflow.labs.html_export import THEME
from qflow.labs.scripts import join_script, read_styles
from qflow.launch import cargo, site
from qflow.launch.book import PAGE
from qflow.launch.chapters import require

_ALL, _PORT = "0.0.0.0", 8000
_STUCK = 3
"""The number of failed checks of an exercise, with none passed, at which a learner counts as stuck."""

_AWAY = 8.0
"""Seconds without a report after which a browser counts as away; a browser reports every two seconds."""

_MOST, _BODY, _FROM_ADDRESS = 200, 20_000, 8
"""The most browsers, questions or exercises of a class; the bytes of a report; the browsers per address."""

_FORGOTTEN = 60.0
"""Seconds after which a browser that never guessed or checked loses its seat."""


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": 20}


_TEXT, _LINE = ({"type": "string", "maxLength": most} for most in (2000, 200))
_NUMBER = {"type": "number", "minimum": -1e15, "maximum": 1e15}
_VALUE = {"anyOf": [_LINE, _NUMBER]}
_LEVELS = dict.fromkeys(("most", "limit", "stop", "resume"), _NUMBER)
_GUESS = _object("id question answer", id=_TEXT, question=_TEXT, answer=_VALUE, truth=_VALUE, word=_LINE)
_GUESS["properties"] |= {"choices": _list(_LINE), "tank": _object("name most", name=_LINE, **_LEVELS)}
_CHECK = _object("id passed message at", id=_TEXT, passed={"type": "boolean"}, message=_TEXT, at=_NUMBER)
_REPORT = _object("who name page guesses checks", name=_LINE, page=_LINE)
_REPORT["properties"] |= {"who": {"type": "string", "pattern": "^[0-9a-f]{16}$"}}
_REPORT["properties"] |= {"guesses": _list(_GUESS), "checks": _list(_CHECK), "left": {"type": "boolean"}}
"""The JSON schema of a page's report."""

_ORDER = _object("", go={"type": "integer", "minimum": 0}, held={"type": "boolean"})
"""The teacher's orders: to open a question, and to hold the class at each question until then."""


@dataclass
class _Seat:
    """A browser that takes part in the class."""

    number: int
    address: str
    name: str = ""
    when: float = 0.0  # of the last report, in seconds of the monotonic clock
    reports: int = 0
    has_said: bool = False  # whether it has reported a guess or a check
    heard: int = -1  # how many of the teacher's orders its page knows of

    def is_here(self) -> bool:
        """Return whether the browser's last report is recent enough for it to count as present."""
        return self.when > time.monotonic() - _AWAY


class _Classroom:
    """The guesses and checks of a class, kept in memory for the teacher's screen."""

    def __init__(self, from_address: int = _FROM_ADDRESS) -> None:
        self._from_address = from_address
        jsonschema = importlib.import_module("jsonschema")
        self._report, self._order = map(jsonschema.Draft202012Validator, (_REPORT, _ORDER))
        self._lock = threading.Lock()
        self._seats: dict[str, _Seat] = {}
        self._seated = self._orders = 0
        self._questions: dict[tuple[str, str], dict[str, Any]] = {}
        self._exercises: dict[tuple[str, str], dict[str, Any]] = {}
        self._is_held = False

    def receive(self, report: Any, address: str = "") -> dict[str, Any]:
        """Process a browser's report; return its seat, the questions' state, and the visible guesses."""
        _check(report, self._report)
        page = report["page"]
        with self._lock:
            seat = self._seats.get(report["who"]) or self._seat(report["who"], address)
            seat.name, seat.reports = " ".join(report["name"].split()), seat.reports + 1
            seat.when = time.monotonic() - _AWAY * report.get("left", False)
            seat.has_said |= bool(report["guesses"] or report["checks"])
            seat.heard = self._orders
            for guess in report["guesses"]:
                self._take_guess(seat.number, page, guess)
            for check in report["checks"]:
                self._take_check(seat.number, page, check)
            asked = [each for each in self._questions.values() if each["page"] == page]
            opened = [each["id"] for each in asked if each["open"]]
            # Others' answers, without names, go only to those who have guessed, and not while class is held.
            told = {
                each["id"]: _others(each["answers"], seat.number)
                for each in asked
                if seat.number in each["answers"] and (each["open"] or not self._is_held)
            }
            return {"seat": seat.number, "held": self._is_held, "open": opened, "room": told}

    def _seat(self, who: str, address: str) -> _Seat:
        """Give a new browser a seat; if the class or its address is full, free one or raise RefusalError."""
        now = time.monotonic()
        for other, seat in [*self._seats.items()]:
            if not seat.has_said and seat.when < now - _FORGOTTEN:
                del self._seats[other]
        own = [other for other, seat in self._seats.items() if seat.address == address]
        if len(own) >= self._from_address:
            # A browser reports every two seconds; one that a script invented has reported only once.
            self._free([other for other in own if self._seats[other].reports == 1], _CROWD.format(len(own)))
        elif len(self._seats) >= _MOST:
            away = [other for other, seat in self._seats.items() if not seat.is_here()]
            self._free(away, _FULL)
        self._seated += 1
        self._seats[who] = _Seat(self._seated, address)
        return self._seats[who]

    def _free(self, candidates: list[str], refusal: str) -> None:
        """Free the seat of the candidate with the oldest report; refuse if the candidates are empty."""
        if not candidates:
            raise RefusalError(refusal)
        del self._seats[min(candidates, key=lambda other: self._seats[other].when)]

    def obey(self, order: Any) -> dict[str, Any]:
        """Carry out an order of the teacher: hold or release the class, or open a question."""
        _check(order, self._order)
        with self._lock:
            self._is_held = order.get("held", self._is_held)
            self._orders += 1
            for place, asked in enumerate(self._questions.values()):
                # A question that was opened stays open, as its answers have been shown.
                asked["open"] |= place == order.get("go")
        return {}

    def report(self) -> dict[str, Any]:
        """Return the contents of the teacher's screen, ready to be written as JSON."""
        with self._lock:
            seats = [
                {
                    "seat": seat.number,
                    "name": seat.name,
                    "here": seat.is_here(),
                    "heard": seat.heard == self._orders,
                }
                for seat in self._seats.values()
            ]
            asked, exercises = [*self._questions.values()], [*self._exercises.values()]
            shown = {"held": self._is_held, "seats": seats, "questions": asked, "exercises": exercises}
            return copy.deepcopy(shown)

    def _take_guess(self, seat: int, page: str, guess: dict[str, Any]) -> None:
        """Record a guess; a seat may change its guess until the teacher opens the question."""
        new = {"word": "", "tank": None, "choices": [], "truth": None, **guess}
        new |= {"page": page, "answers": {}, "open": False}
        asked = _place(self._questions, (page, guess["id"]), new)
        if not asked["open"] or seat not in asked["answers"]:
            asked["answers"][seat] = guess["answer"]

    def _take_check(self, seat: int, page: str, check: dict[str, Any]) -> None:
        """Record a check of an exercise, identified by its time; a seat that has passed stays passed."""
        new = {"page": page, "id": check["id"], "seats": {}}
        seats = _place(self._exercises, (page, check["id"]), new)["seats"]
        checks = seats.setdefault(seat, {"state": "at it", "failed": [], "message": ""})
        if check["passed"]:
            checks["state"] = "done"
        elif check["at"] not in checks["failed"]:
            # A browser repeats a report whose answer was lost: a check may arrive twice, and counts once.
            checks |= {"failed": [*checks["failed"][-99:], check["at"]], "message": check["message"]}
        if checks["state"] != "done" and len(checks["failed"]) >= _STUCK:
            checks["state"] = "stuck"


def _others(answers: dict[int, Any], seat: int) -> list[Any]:
    """Return the answers of all other seats, sorted, so that their order does not reveal who gave them."""
    return sorted((answer for other, answer in answers.items() if other != seat), key=str)


_FULL = f"A class has at most {_MOST} browsers, questions and exercises, each."
_CROWD = (
    "{} browsers of your address are in the class already. Where a room shares one address, "
    "qflow class --seats-per-address allows more."
)


def _place(there: dict[Any, Any], key: object, new: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a key, and add the new one if it is missing; refuse if the table is full."""
    if key not in there and len(there) == _MOST:
        raise RefusalError(_FULL)
    placed: dict[str, Any] = there.setdefault(key, new)
    return placed


def _check(value: object, validator: Any) -> None:
    """Refuse a value that does not match a JSON schema."""
    for problem in validator.iter_errors(value):
        raise RefusalError(f"{problem.json_path}: {problem.message[-150:]}")


class _ClassServer(ThreadingHTTPServer):
    """The HTTP server that serves the site to a class, and collects the class's guesses and checks."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path, host: str, port: int, from_address: int = _FROM_ADDRESS) -> None:
        self.room = _Classroom(from_address)
        self.folder = folder.resolve()
        # The address of the teacher's screen serves as a password: learners' pages never contain it.
        self.teacher = f"/class/{secrets.token_urlsafe(9)}"
        super().__init__((host, port), partial(_Handler, directory=str(self.folder)))
        self.address = f"{_find_address() if host == _ALL else host}:{self.server_port}"
        self.hosts = {self.address.rpartition(":")[0], host, "localhost", "127.0.0.1", "[::1]"}
        self.hosts |= {socket.gethostname(), f"{socket.gethostname()}.local"}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error, such as of a browser that disconnects in the middle of a page."""


class _Handler(SimpleHTTPRequestHandler):
    """The request handler for the class's browsers and the teacher's screen."""

    server: _ClassServer
    timeout = 30

    def _is_ours(self) -> bool:
        """Return whether a request's Host header names this server, and not a name chosen by another site."""
        host, _, port = self.headers.get("Host", "").rpartition(":")
        own = f"{self.connection.getsockname()[0]}"
        return host in {*self.server.hosts, own} and port == str(self.server.server_port)

    def send_head(self) -> Any:
        """Send a file of the site (with the class's script, if it is a page), or the teacher's screen."""
        place = urlsplit(self.path).path
        if not self._is_ours():
            return self.send_error(421, "Misdirected Request", f"This class is at {self.server.address}.")
        if self._is_teacher(place):
            screen = (PAGE / "class.html").read_text(encoding="utf-8")
            return self._answer("text/html", screen.replace("ADDRESS", self.server.address))
        if self._is_teacher(place.removesuffix("/seen")):
            return self._answer("application/json", json.dumps(self.server.room.report()))
        if place in ("/class/class.js", "/class/room.js"):
            before = THEME if place.endswith("class.js") else ""
            return self._answer("text/javascript", before + join_script(Path(place).name, PAGE))
        if place == "/class/labs.css":
            return self._answer("text/css", read_styles("scene.css"))
        file = self._find_file(place)
        if file is None:
            return self.send_error(404)
        if file.suffix == ".html":
            text = file.read_text(encoding="utf-8")
            before, end, after = text.rpartition("</body>") if "</body>" in text else (text, "", "")
            return self._answer("text/html", f'{before}<script src="/class/room.js"></script>{end}{after}')
        return super().send_head()

    def _find_file(self, place: str) -> Path | None:
        """Return the requested file or folder of the site, or None if the path is not in the site."""
        path = Path(self.translate_path(place))
        file = path / "index.html" if place.endswith("/") else path
        try:
            is_ours = file.resolve().is_relative_to(self.server.folder)
            return file if is_ours and (file.is_file() or file.is_dir()) else None
        except (OSError, ValueError):
            return None

    def do_POST(self) -> None:
        """Process a report of a page, or an order from the teacher's screen."""
        place, room = urlsplit(self.path).path, self.server.room
        hear = partial(room.receive, address=str(self.client_address[0]))
        take = room.obey if self._is_teacher(place) else hear if place == "/class/said" else None
        try:
            content = self._content()
            nothing = {"error": f"{place[:60]} accepts no report."}
            status, answer = (200, take(content)) if take else (404, nothing)
        except RefusalError as refusal:
            status, answer = 400, {"error": str(refusal)}
        self.wfile.write(self._answer("application/json", json.dumps(answer), status).read())

    def _content(self) -> Any:
        """Return a request's JSON body; refuse a body that does not come from a page of this server."""
        length = self.headers.get("Content-Length", "")
        size = read_digits(length) or 0
        # If bytes remained unread, the connection would be reset, and the answer lost.
        content = self.rfile.read(min(size, 50 * _BODY))
        if not 0 < size <= _BODY:
            raise RefusalError(f"A report must have 1 to {_BODY} bytes; got {length[:20] or 'no length'}.")
        if not self._is_ours() or self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            raise RefusalError("A report must come from a page of this server.")
        try:
            # NaN and Infinity are not valid JSON: int raises a ValueError for them.
            return json.loads(content, parse_constant=int)
        except (ValueError, RecursionError):
            raise RefusalError(f"A report must be JSON; got {content[:60]!r}.") from None

    def _is_teacher(self, place: str) -> bool:
        # Compared in constant time, so that the time does not reveal how much of an address was right.
        return secrets.compare_digest(place.encode(), self.server.teacher.encode())

    def _answer(self, kind: str, text: str, status: int = 200) -> io.BytesIO:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        return io.BytesIO(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a line for each request would bury the teacher's output."""


def _find_address() -> str:
    """Return this machine's address in the class's network, without sending anything."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket only makes the system choose a route; no packet is sent.
            probe.connect(("10.255.255.255", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``class`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "class",
        description="Serve the site to a class, and show its guesses and stuck learners on one screen. "
        "Names are optional, nothing leaves the room, and Ctrl-C ends the class and deletes its data.",
    )
    place = f"a site, built if it is not there; default: ./{site.DEFAULT_FOLDER}"
    parser.add_argument("--site", metavar="FOLDER", default=site.DEFAULT_FOLDER, help=place)
    parser.add_argument("--host", metavar="H", default=_ALL, help="the address to listen on; default: all")
    port = f"the TCP port to listen on; default: {_PORT}"
    parser.add_argument("--port", type=port_number, default=_PORT, metavar="N", help=port)
    crowd = f"browsers that one network address may have in the class; default: {_FROM_ADDRESS}"
    parser.add_argument(
        "--seats-per-address", type=whole_number, default=_FROM_ADDRESS, metavar="N", help=crowd
    )


def _listen(folder: Path, chosen: argparse.Namespace) -> _ClassServer:
    try:
        return _ClassServer(folder, chosen.host, chosen.port, chosen.seats_per_address)
    except OSError as problem:
        raise RefusalError(f"Cannot listen on {chosen.host}:{chosen.port}: {problem.strerror}.") from problem


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow class`` until Ctrl-C; return the exit status."""
    require({"jsonschema": "jsonschema"}, extra="lab")
    folder = Path(chosen.site).absolute()
    if not folder.exists():
        # Refuse a port that is in use now, not after the minutes that building a site takes.
        _listen(folder, chosen).server_close()
        site.build(folder)
    if not (folder / cargo.MARK).is_file() or not (folder / "index.html").is_file():
        raise RefusalError(f"{folder} holds no site of qflow; choose one with --site, or name a new folder.")
    server = _listen(folder, chosen)
    heed_interrupts()
    with server:
        own = f"localhost:{server.server_port}" if chosen.host == _ALL else server.address
        print(f"The room opens    http://{server.address}/")
        print(f"Your own screen   http://{own}{server.teacher}")
        print("Ctrl-C closes the class and deletes its guesses.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nThe class is closed.")
    return 0
