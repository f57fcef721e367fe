"""A class on one screen: thirty browsers, a laptop that leaves, bad input, and nothing left behind."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import refusal

from qflow.kit import RefusalError
from qflow.launch import cargo, classroom
from qflow.launch.classroom import _Classroom, _ClassServer

PAGE = "/book/notebooks/01-thresholds.html"
TANK = {"name": "orders", "most": 1100, "limit": 1000, "stop": 900, "resume": 500}


def guess(answer, **more):
    return {"id": "q", "question": "ON at which depth?", "answer": answer, "kind": "number", **more}


def check(at, passed=False, message="Reached is not enough."):
    return {"id": "flow_states", "passed": passed, "message": message, "at": at}


def report(number, *, guesses=(), checks=(), name=""):
    who = f"{number:016x}"
    return {"who": who, "name": name, "page": PAGE, "guesses": list(guesses), "checks": list(checks)}


@pytest.fixture
def folder(tmp_path) -> Path:
    """A site of one page, in a folder with something beside it."""
    site = tmp_path / "site"
    cargo.claim(site, "site")
    (site / "book").mkdir()
    (site / "index.html").write_text("<!doctype html><body><p>a &lt; b</p></body>")
    (site / "book" / "page.css").write_text("p {}")
    (tmp_path / "thesis.txt").write_text("years of work")
    (site / "out.txt").symlink_to(tmp_path / "thesis.txt")
    return site


@contextmanager
def serve(folder: Path) -> Iterator[_ClassServer]:
    """Serve a class; how often it is looked for its end is how long that takes."""
    # All browsers of these tests come from one address.
    with _ClassServer(folder, "127.0.0.1", 0, from_address=64) as listening:
        threading.Thread(target=listening.serve_forever, args=(0.005,), daemon=True).start()
        yield listening
        listening.shutdown()


@pytest.fixture
def server(folder):
    with serve(folder) as listening:
        yield listening


def ask(server, method, path, body=None, **headers):
    """Return the status of a request and what came, read as JSON if it is JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, data, {"Origin": f"http://{server.address}", **headers})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, json.loads(text) if "json" in answer.getheader("Content-Type", "") else text


def seen(server):
    status, content = ask(server, "GET", f"{server.teacher}/seen")
    assert status == 200
    return content


class TestThirtyBrowsers:
    def test_every_guess_and_every_check_arrives_once(self, server):
        def learn(number):
            status, page = ask(server, "GET", "/")
            assert (status, "/class/room.js" in page) == (200, True)
            for answer in (500, 890 + number):
                guesses = [guess(answer, tank=TANK, truth=901)]
                said = report(number, guesses=guesses, checks=[check(1), check(2)])
                assert ask(server, "POST", "/class/said", said)[0] == 200
            return ask(server, "POST", "/class/said", report(number, name=f"n{number}"))[1]["seat"]

        with ThreadPoolExecutor(30) as room:
            seats = list(room.map(learn, range(30)))
        shown = seen(server)
        assert sorted(seats) == list(range(1, 31))
        names = {seat["seat"]: seat["name"] for seat in shown["seats"]}
        assert names == {seat: f"n{number}" for number, seat in enumerate(seats)}
        (asked,) = shown["questions"]
        assert asked["answers"] == {str(seat): 890 + number for number, seat in enumerate(seats)}
        assert (asked["tank"], asked["truth"], asked["open"]) == (TANK, 901, False)
        (exercise,) = shown["exercises"]
        states = Counter((each["state"], len(each["failed"])) for each in exercise["seats"].values())
        assert states == {("at it", 2): 30}

    def test_a_room_has_an_end(self):
        room = _Classroom()
        for number in range(classroom._MOST):
            room.receive(report(number, guesses=[guess(900)]), f"10.0.0.{number}")
        with pytest.raises(RefusalError, match="at most 200 browsers"):
            room.receive(report(classroom._MOST), "10.0.1.1")
        assert room.receive(report(0), "10.0.0.0")["seat"] == 1

    def test_a_flood_from_one_address_takes_its_own_seats_only(self, folder):
        """Two hundred made-up browsers, then a learner of that address, and one of another."""
        with _ClassServer(folder, "127.0.0.1", 0) as server:
            threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True).start()
            for number in range(200):
                ask(server, "POST", "/class/said", report(1000 + number))
            assert len(seen(server)["seats"]) <= 8
            status, answer = ask(server, "POST", "/class/said", report(1, name="Ada"))
            assert (status, answer["held"]) == (200, False)
            assert "Ada" in [seat["name"] for seat in seen(server)["seats"]]
            server.room.receive(report(2), "10.0.0.2")
            assert len(seen(server)["seats"]) <= 9
            server.shutdown()

    def test_browsers_of_one_address_that_stay_keep_their_seats(self):
        room = _Classroom(from_address=2)
        for _ in range(2):
            for number in (1, 2):
                room.receive(report(number), "10.0.0.1")
        with pytest.raises(RefusalError, match="2 browsers of your address .* --seats-per-address"):
            room.receive(report(3), "10.0.0.1")
        assert room.receive(report(3), "10.0.0.2")["seat"] == 3

    def test_a_browser_that_left_without_a_word_frees_its_seat(self, monkeypatch):
        now = [100.0]
        monkeypatch.setattr(classroom.time, "monotonic", lambda: now[0])
        room = _Classroom()
        room.receive(report(1), "10.0.0.1")
        room.receive({**report(1), "left": True}, "10.0.0.1")
        assert [seat["here"] for seat in room.report()["seats"]] == [False], "at once"
        room.receive(report(2, guesses=[guess(900)]), "10.0.0.2")
        now[0] += 61
        room.receive(report(3), "10.0.0.3")
        assert [seat["seat"] for seat in room.report()["seats"]] == [2, 3]


class TestWhoIsStuck:
    def test_three_checks_that_failed_and_none_that_passed(self):
        room = _Classroom()
        states = []
        for at in range(4):
            room.receive(report(1, checks=[check(at, passed=at == 3, message=f"try {at}")]))
            (exercise,) = room.report()["exercises"]
            states.append(exercise["seats"][1]["state"])
        assert states == ["at it", "at it", "stuck", "done"]
        assert exercise["seats"][1]["message"] == "try 2"

    def test_who_has_passed_once_and_tries_on_is_not_stuck(self):
        room = _Classroom()
        room.receive(report(1, checks=[check(0, passed=True), check(1), check(2), check(3)]))
        assert room.report()["exercises"][0]["seats"][1]["state"] == "done"


class TestALaptopThatLeaves:
    def test_it_is_away_and_has_its_seat_when_it_is_back(self, monkeypatch):
        now = [100.0]
        monkeypatch.setattr(classroom.time, "monotonic", lambda: now[0])
        room = _Classroom()
        for number in (1, 2):
            room.receive(report(number, guesses=[guess(900)]))
        now[0] += classroom._AWAY + 1
        assert room.receive(report(2))["seat"] == 2
        assert [seat["here"] for seat in room.report()["seats"]] == [False, True]
        assert room.receive(report(1))["seat"] == 1
        assert [seat["here"] for seat in room.report()["seats"]] == [True, True]

    def test_one_that_breaks_off_in_the_middle_harms_nobody(self, server, capfd):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        connection.putrequest("POST", "/class/said")
        connection.putheader("Content-Length", "5000")
        connection.endheaders(b'{"who":')
        connection.close()
        assert ask(server, "POST", "/class/said", report(1))[0] == 200
        assert "Traceback" not in "".join(capfd.readouterr())


class TestGo:
    def test_the_screen_says_which_pages_have_heard_it(self, server):
        for number in (1, 2):
            ask(server, "POST", "/class/said", report(number))
        ask(server, "POST", server.teacher, {"held": True})
        assert [seat["heard"] for seat in seen(server)["seats"]] == [False, False]
        ask(server, "POST", "/class/said", report(2))
        assert [seat["heard"] for seat in seen(server)["seats"]] == [False, True]

    @pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost", ""])
    def test_a_host_of_another_name_is_refused(self, server, host):
        host = host.format(port=server.server_port)
        status, _ = ask(server, "GET", "/", None, Host=host)
        assert status == 421
        said = report(1)
        status, _ = ask(server, "POST", "/class/said", said, Host=host, Origin=f"http://{host}")
        assert status == 400
        assert seen(server)["seats"] == []

    def test_a_held_room_goes_on_at_the_teachers_word(self, server):
        assert ask(server, "POST", "/class/said", report(1, guesses=[guess(900)]))[1]["held"] is False
        assert ask(server, "POST", server.teacher, {"held": True}) == (200, {})
        _, answer = ask(server, "POST", "/class/said", report(1, guesses=[guess(901)]))
        assert (answer["held"], answer["open"]) == (True, [])
        assert ask(server, "POST", server.teacher, {"go": 0}) == (200, {})
        _, answer = ask(server, "POST", "/class/said", report(1, guesses=[guess(950)]))
        assert (answer["held"], answer["open"]) == (True, ["q"])
        assert seen(server)["questions"][0]["answers"] == {"1": 901}, "the first guess after go stays"

    def test_who_has_guessed_hears_the_others_once_the_room_may(self):
        room = _Classroom()
        room.obey({"held": True})
        for who, answer in ((1, 900), (2, 165), (3, 1000)):
            assert room.receive(report(who, guesses=[guess(answer)]))["room"] == {}, "the room is held"
        room.obey({"go": 0})
        assert room.receive(report(1))["room"] == {"q": [1000, 165]}
        assert room.receive(report(3))["room"] == {"q": [165, 900]}
        assert room.receive(report(4))["room"] == {}, "it has not guessed"

    def test_a_question_that_is_not_there(self):
        room = _Classroom()
        room.receive(report(1, guesses=[guess(900)]))
        room.obey({"go": 7})
        assert room.report()["questions"][0]["open"] is False


BAD = {
    "no JSON": (b"who=ada", "A report must be JSON; got b'who=ada'"),
    "not a number": (json.dumps(report(1, guesses=[guess(float("nan"))])).encode(), "A report must be JSON"),
    "too deep": (b"[" * 15_000, "A report must be JSON"),
    "bytes of no text": (b"\xff\xfe\x00", "A report must be JSON"),
    "nothing": (b"", "1 to 20000 bytes; got 0"),
    "too long": (json.dumps(report(1, name="x" * 30_000)).encode(), "1 to 20000 bytes; got 30"),
    "a list": ([], r"\$: \[\] is not of type 'object'"),
    "nothing said": ({}, "is a required property"),
    "no seat": ({**report(1), "who": "ada"}, r"\$.who: 'ada' does not match"),
    "a long name": (report(1, name="x" * 201), r"\$.name: .*is too long"),
    "a page that is a number": ({**report(1), "page": 7}, r"\$.page: 7 is not of type 'string'"),
    "guesses that are a text": ({**report(1), "guesses": "901"}, r"\$.guesses: '901' is not of type 'array'"),
    "a guess that is a list": (report(1, guesses=[guess([901])]), r"\$.guesses\[0\].answer"),
    "a guess that is true": (report(1, guesses=[guess(True)]), r"\$.guesses\[0\].answer"),
    "a guess without end": (report(1, guesses=[guess(10**18)]), r"\$.guesses\[0\].answer"),
    "a tank of texts": (report(1, guesses=[guess(1, tank={**TANK, "stop": "x"})]), r"tank.stop: 'x' is not"),
    "a check that says maybe": (report(1, checks=[check(1, passed="maybe")]), r"passed: 'maybe' is not"),
    "too many": (report(1, guesses=[guess(1)] * 21), r"\$.guesses: .*is too long"),
}  # fmt: skip


class TestBadInput:
    @pytest.mark.parametrize("body", BAD)
    def test_it_is_refused_in_a_sentence_and_changes_nothing(self, server, body):
        said, words = BAD[body]
        status, answer = ask(server, "POST", "/class/said", said)
        assert status == 400
        assert re.search(words, answer["error"])
        assert len(answer["error"]) < 250
        shown = seen(server)
        assert (shown["seats"], shown["questions"], shown["exercises"]) == ([], [], [])

    def test_a_page_of_another_server(self, server):
        status, answer = ask(server, "POST", "/class/said", report(1), Origin="http://evil.example")
        assert (status, answer) == (400, {"error": "A report must come from a page of this server."})

    @pytest.mark.parametrize("order", [{"go": -1}, {"go": True}, {"go": "0"}, {"held": 1}, [0]])
    def test_an_order_that_is_none(self, server, order):
        assert ask(server, "POST", server.teacher, order)[0] == 400

    @pytest.mark.parametrize(
        "path",
        [
            "/thesis.txt", "/../thesis.txt", "/%2e%2e/thesis.txt", "/book/..%2f..%2fthesis.txt", "/out.txt",
            "//etc/passwd", "/book/", "/index.html/", "/%00", f"/{'x' * 3000}", "/class/", "/class/seen",
            "/class/wrong-token", "/class/wrong-token/seen",
        ],
    )  # fmt: skip
    def test_a_path_that_leads_nowhere(self, server, path):
        status, content = ask(server, "GET", path)
        assert status == 404
        assert "years of work" not in content

    @pytest.mark.parametrize("path", ["/", "/class/seen", "/class/wrong-token", "/index.html"])
    def test_nothing_else_can_be_told(self, server, path):
        assert ask(server, "POST", path, {"held": True})[0] == 404
        assert seen(server)["held"] is False


def test_a_page_is_served_as_it_is_but_for_one_script_at_its_end(server, folder):
    page = (folder / "index.html").read_text()
    script = '<script src="/class/room.js"></script>'
    for path in ("/", "/index.html?a=b"):
        assert ask(server, "GET", path) == (200, page.replace("</body>", f"{script}</body>"))
    (folder / "open.html").write_text("<!doctype html><p>no end")
    assert ask(server, "GET", "/open.html") == (200, f"<!doctype html><p>no end{script}")
    assert ask(server, "GET", "/book/page.css") == (200, "p {}")


def test_the_screen_is_behind_an_address_of_its_own_each_time(folder):
    addresses = set()
    for _ in range(2):
        with _ClassServer(folder, "127.0.0.1", 0) as server:
            addresses.add(server.teacher)
    assert len(addresses) == 2


def test_it_ends_with_the_command_and_leaves_nothing(folder):
    def files():
        return {path: path.read_bytes() for path in sorted(folder.parent.rglob("*")) if path.is_file()}

    before = files()
    command = f"-m qflow class --site {folder} --host 127.0.0.1 --port 0".split()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *command], cwd=folder.parent, **pipes) as running:
        room, screen, end = (running.stdout.readline() for _ in range(3))
        assert end == "Ctrl-C closes the class and deletes its guesses.\n"
        port, screen = re.search(r":(\d+)/$", room)[1], re.search(r"(/class/\S+)$", screen)[1]
        served = SimpleNamespace(server_port=int(port), address=f"127.0.0.1:{port}")
        for path, said in (("/class/said", report(1, name="Ada", guesses=[guess(901)])), (screen, {"go": 0})):
            assert ask(served, "POST", path, said)[0] == 200
        running.send_signal(signal.SIGINT)
        out, errors = running.communicate(timeout=30)
    assert (running.returncode, errors) == (0, "")
    assert out == "\nThe class is closed.\n"
    assert files() == before


class TestRefusals:
    def test_a_folder_that_is_no_site(self, tmp_path, capsys):
        (tmp_path / "index.html").write_text("mine")
        assert "holds no site of qflow" in refusal(capsys, "class", "--site", tmp_path)

    def test_a_port_that_is_taken(self, server, folder, capsys):
        taken = server.server_port
        said = refusal(capsys, "class", "--site", folder, "--host", "127.0.0.1", "--port", taken)
        assert f"Cannot listen on 127.0.0.1:{taken}: " in said

    def test_a_port_that_is_taken_is_refused_before_a_site_is_built(
        self, server, tmp_path, capsys, monkeypatch
    ):
        monkeypatch.setattr("qflow.launch.site.build", lambda folder: pytest.fail("a site is built"))
        taken, new = server.server_port, tmp_path / "new"
        said = refusal(capsys, "class", "--site", new, "--host", "127.0.0.1", "--port", taken)
        assert f"Cannot listen on 127.0.0.1:{taken}: " in said and not new.exists()

    @pytest.mark.parametrize("number", ["0", "-1", "many"])
    def test_seats_per_address_are_at_least_one(self, number, capsys):
        said = refusal(capsys, "class", f"--seats-per-address={number}")
        assert f"must be a whole number from 1, got '{number}'" in said
