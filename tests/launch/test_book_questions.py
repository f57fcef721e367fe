"""What the book's pages ask: nothing is told before it is answered, and then in the notebooks' words."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
from browser import chromium_page
from commands import run_python
from test_front_door import unpacked as unpack_text
from test_front_door import write_book

from qflow.launch import book_questions
from qflow.launch.book_questions import answer, ask_in_page
from qflow.teaching import errata_game
from qflow.teaching.errata import PAGES, errata
from qflow.teaching.exercise import exercises, themes
from qflow.teaching.predictions import questions

ROOT = Path(__file__).resolve().parents[2]
PLACE = re.compile(r'<div class="qf-place">.*?<script type="application/json">(.*?)</script></div>', re.S)
CHAPTERS = [path.stem for path in sorted((ROOT / "notebooks").glob("[01][0-9]-*.ipynb"))]


@cache
def asked_in(path: str) -> tuple[list[dict], str, list[str | dict]]:
    """Return what a page asks, all that can be read in it, and its outputs: a text, or what is asked."""
    notebook = nbformat.read(ROOT / path, as_version=4)
    ask_in_page(notebook, path)
    outputs: list[str | dict] = []
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        data = output.get("data", {})
        place = PLACE.search("".join(data.get("text/html", "")))
        shown = f"{data.get('text/plain', '')}\n{output.get('text', '')}\n"
        outputs.append(json.loads(place[1]) if place else shown)
    return [each for each in outputs if isinstance(each, dict)], nbformat.writes(notebook), outputs


def unpacked(place: dict) -> object:
    return json.loads(unpack_text(place["packed"]))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_question_is_asked_in_the_page_or_a_lab_and_answered_at_the_end_alone(chapter):
    places, text, _ = asked_in(f"notebooks/{chapter}.ipynb")
    known = questions(chapter)
    (comparison,) = (place for place in places if place["kind"] == "comparison")
    assert {asked["id"] for asked in comparison["asked"]} == {f"{chapter}/{name}" for name in known}
    for asked in comparison["asked"]:
        question, kept = known[asked["id"].partition("/")[2]], unpacked(asked)
        assert set(asked) == {"id", "question", "choices", "certainties", "packed"}
        assert question.choices == () or kept["came"] in question.choices
        assert set(question.because) <= set(kept["said"])
    by_field = {place["id"] for place in places if place["kind"] == "prediction"}
    by_lab = {f"{chapter}/{name}" for name, question in known.items() if question.mark}
    assert by_field | by_lab == {asked["id"] for asked in comparison["asked"]} and not by_field & by_lab
    assert "you made no guess" not in text and "predictions.compare(" not in text


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_output_above_a_question_shows_what_came(chapter):
    """A page has the outputs of an executed chapter; a learner's copy has none."""
    places, _, outputs = asked_in(f"notebooks/{chapter}.ipynb")
    (comparison,) = (place for place in places if place["kind"] == "comparison")
    came = {asked["id"]: unpacked(asked)["came"] for asked in comparison["asked"]}
    seen = ""
    for output in outputs:
        if isinstance(output, str):
            seen += output
            continue
        known = came.get(output.get("id"), "yes")
        if known not in {"yes", "no", "ON", "OFF"}:
            told = re.search(rf"(?<![\w.,-]){re.escape(known)}(?![\w]|[-.,]\d)", seen)
            assert not told, f"{known} stands above {output['id']}"


def test_the_errata_game_is_the_notebooks_and_its_answers_are_packed():
    places, *_ = asked_in("notebooks/11-errata.ipynb")
    games = [place for place in places if place["kind"] == "errata"]
    for name, place in zip(PAGES, games, strict=True):
        game = errata_game(name)
        assert place["page"] == json.loads(json.dumps(game.page))
        assert unpacked(place)["scores"]["0 0"] == game.judge()
        assert not any(one.truth in json.dumps(place) for one in errata(name))


@pytest.mark.parametrize("theme", themes())
def test_each_exercise_has_a_box_and_its_hints_are_packed(theme):
    places, text, _ = asked_in(f"exercises/{theme}.ipynb")
    if theme == "13-fleet":
        assert places == [], "a worker has no library for graphs"
        return
    *boxes, progress = places
    tasks = {f"exercises/{theme}/{task.name}": task for task in exercises(theme)}
    assert {box["id"] for box in boxes} == set(tasks) == set(progress["ids"])
    for box in boxes:
        task = tasks[box["id"]]
        assert unpacked(box) == list(task.hints) and not any(hint in text for hint in task.hints)
        assert "raise NotImplementedError" in box["code"] and f"qf.check({task.name})" not in text


def verdict(code: str, name: str = "exercises/01-thresholds/on_and_off", **more: bool) -> dict:
    return json.loads(answer(json.dumps({"id": name, "setup": "import qflow as qf", "code": code, **more})))


def test_code_is_judged_in_the_words_of_a_notebooks_check():
    head = "def on_and_off(limit, stop, resume):\n    "
    unwritten = verdict(head + "raise NotImplementedError")
    assert unwritten["lines"][0] == "NOT YET  on_and_off: nothing written yet." and unwritten["hints"] == 1
    wrong = verdict(head + "print('asked')\n    return stop, resume")
    assert wrong["lines"][-1].startswith('This looks like "reached is enough"')
    assert wrong["printed"].startswith("asked\nasked") and not wrong["passed"]
    assert not any("qf.hint" in line for line in unwritten["lines"] + wrong["lines"]), "a button does that"
    right = verdict(head + "return stop + 1, resume - 1")
    said = "RIGHT  on_and_off: right in all 8 cases, each tried on the engine."
    assert right["passed"] and right["lines"] == [said]


def test_the_case_that_failed_is_played():
    code = "def on_and_off(*all): return 3"
    assert verdict(code)["shows"]
    shown = verdict(code, shows=True)
    assert shown["lines"] == ["The broker's behaviour: on_and_off(limit=1000, stop=900, resume=500)"]
    assert shown["picture"].startswith('<div class="qflow-stored">')
    code = code.replace("on_and_off", "session_plan")
    refused = verdict(code, "exercises/08-several-queues/session_plan", shows=True)
    assert refused["lines"] == ["session_plan has no run of the engine to show in this case."]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def on_and_off(:", "Line 1: SyntaxError: "),
        ("on = 1\n\nraise ValueError('x')", "Line 3: ValueError: x"),
        ("exit()", "Line 1: "),
        ("def another(): pass", "The code defines no function of the name on_and_off."),
        ("on_and_off = 3", "ended with the error TypeError: 'int' object is not callable."),
    ],
)
def test_code_that_cannot_be_run_is_told_why(code, said):
    found = verdict(code)
    assert not found["passed"] and said in found["lines"][1]


def test_every_solution_is_right_and_any_run_is_drawn_with_the_standard_library_alone():
    """The worker has the engine and nothing else."""
    code = """
import json, sys

sys.path.insert(0, sys.argv.pop(1))
from qflow.launch.book_questions import answer
from qflow.teaching.exercise import exercises
wrong = []
for theme in sys.argv[1:]:
    with open(f"exercises/solutions/{theme}.ipynb", encoding="utf-8") as file:
        cells = {cell["id"]: "".join(cell["source"]) for cell in json.load(file)["cells"]}
    for task in exercises(theme):
        asked = {"id": f"exercises/{theme}/{task.name}", "setup": cells["setup"], "code": cells[task.name]}
        found = json.loads(answer(json.dumps(asked)))
        wrong += [] if found["passed"] else [[task.name, found]]
from qflow.launch import front_door
wrong += [] if "picture" in json.loads(front_door.answer("{}")) else ["front_door"]
print(wrong)
"""
    asked = [theme for theme in themes() if theme not in book_questions._NO_ENGINE]
    # Without site-packages nothing else can be imported.
    done = run_python("-I", "-S", "-c", code, ROOT, *asked, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Path:
    """Three pages of the book, in a folder."""
    folder = tmp_path_factory.mktemp("shelf")
    chosen = ("notebooks/02-bytes-and-counts", "notebooks/11-errata", "exercises/01-thresholds")
    write_book(folder, {f"{path}.ipynb": ROOT / f"{path}.ipynb" for path in chosen})
    return folder / "book"


HEAR = """window.heard = [];
for (const name of ["qflow-prediction", "qflow-exercise"])
    document.addEventListener(name, event => window.heard.push(event.detail));"""
NO_STORAGE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("refused", "SecurityError"); } });"""


@pytest.fixture
def page(shelf):
    with chromium_page() as lab:
        lab.page.add_init_script(HEAR)
        yield lab.page
        assert lab.page_errors == [] and lab.foreign_requests == []


def shot(page, name: str) -> None:
    if "QFLOW_SCREENSHOTS" in os.environ:
        page.screenshot(path=str(Path(os.environ["QFLOW_SCREENSHOTS"]) / f"asks-{name}.png"))


@pytest.mark.browser
@pytest.mark.parametrize("stores", [True, False])
def test_a_guess_is_made_by_mouse_and_kept_and_compared(page, shelf, stores):
    if not stores:
        page.add_init_script(NO_STORAGE)
    file = shelf / "notebooks" / "02-bytes-and-counts.html"
    page.goto(file.as_uri())
    telling = ("What came", "You said", "that is the count alone", "you made no guess")
    # The page as it is sent: a script that it loads later has the words, and no answer.
    assert not any(words in file.read_text(encoding="utf-8") for words in telling)
    first, second = page.locator("form.qf-ask").nth(0), page.locator("form.qf-ask").nth(1)
    first.get_by_role("spinbutton").fill("11")
    first.locator("select").select_option("80")
    first.get_by_text("keep my guess").click()
    first.get_by_text("Your guess: 11 (80 % sure).").wait_for()
    assert not any(words in page.locator("body").inner_text() for words in telling)
    second.get_by_text("OFF", exact=True).click()
    second.get_by_text("keep my guess").click()
    page.wait_for_function("window.heard.length === 2")
    known, chapter = questions("02-bytes-and-counts"), "02-bytes-and-counts"
    guesses = {
        "messages": {"answer": 11, "kind": "number", "truth": 3},
        "state": {"answer": "OFF", "kind": "choice", "truth": "ON"},
    }
    for heard, (name, said) in zip(page.evaluate("window.heard"), guesses.items(), strict=True):
        asked = {"question": known[name].question, "choices": [*known[name].choices]}
        assert heard == {"id": f"{chapter}/{name}", **asked, **said}
    first.get_by_text("show what came").click()
    said = "What came: 3. You said 11: that is the count alone; the bytes are there first."
    first.get_by_text(said).wait_for()
    if stores:
        page.reload()
        first.get_by_text("What came: 3. You said 11").wait_for()
        assert "Your guess: OFF." in second.inner_text() and "What came" not in second.inner_text()
    page.get_by_text("compare my guesses").click()
    page.get_by_text("You were 80 % sure on average, and right in 0 %").wait_for()
    compared = page.locator(".qf-compared").inner_text()
    assert "What came: ON. You said OFF." in compared and "What came: 17. You made no guess." in compared
    assert "You had 0 of 2." in compared
    shot(page, "compared")


@pytest.mark.browser
def test_the_keyboard_alone_makes_a_guess_on_a_phone(page, shelf):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((shelf / "notebooks" / "02-bytes-and-counts.html").as_uri())
    state = page.locator("form.qf-ask").nth(1)
    state.get_by_role("radio").first.focus()
    for key in ("ArrowRight", "Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    state.get_by_text("Your guess: OFF.").wait_for()
    page.keyboard.press("Enter")
    state.get_by_text("What came: ON.").wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


@pytest.mark.browser
def test_a_page_of_errata_is_lost_by_marking_all_and_won_by_finding_the_mistakes(page, shelf):
    games = {name: page.locator(".qf-errata").nth(number) for number, name in enumerate(PAGES)}
    page.goto((shelf / "notebooks" / "11-errata.html").as_uri())
    assert "X-15" not in games["groups"].inner_text()
    for button in games["groups"].locator("[data-place]").all():
        button.click()
    games["groups"].locator(".qf-errata-judge").click()
    games["groups"].get_by_text("Not won: -2 points, and 3 win.").wait_for()
    games["names"].locator(".qf-errata-judge").click()
    games["names"].get_by_text("Not won: 0 points, and 4 win.").wait_for()
    for place, one in enumerate(errata("states")):
        if one.is_wrong:
            games["states"].locator(f"[data-place='{place}']").click()
    games["states"].locator(".qf-errata-judge").click()
    games["states"].get_by_text("Won: 6 points.").wait_for()
    assert games["states"].locator(".qf-errata-truth").count() == len(errata("states"))
    shot(page, "errata")


@pytest.mark.browser
def test_an_exercise_gives_its_hints_from_a_folder_and_says_what_a_check_needs(page, shelf):
    page.goto((shelf / "exercises" / "01-thresholds.html").as_uri())
    box = page.locator(".qf-exercise").first
    hints = exercises("01-thresholds")[0].hints
    for number, hint in enumerate(hints, 1):
        box.locator(".qf-hint").click()
        box.get_by_text(f"Hint {number} of 3: {hint}").wait_for()
    assert box.locator(".qf-hint").get_attribute("aria-disabled") == "true"
    box.locator("textarea").press("Control+End")
    box.locator("textarea").press("Enter")
    assert box.locator("textarea").input_value().endswith("NotImplementedError\n    ")
    box.locator(".qf-check").click()
    box.get_by_text("a browser starts no Python").wait_for()
    assert page.evaluate("window.heard") == []
    shot(page, "exercise")
