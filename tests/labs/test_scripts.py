"""The scripts without a browser: Node runs the modules' tests, and they read what Python reads."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sentences import state_sentence, step_sentence

from qflow.labs import capacity_run, compare, fanout_run, flow_run, group_run, policy_run
from qflow.labs.experiments import POLICIES
from qflow.labs.group import GroupTable, group_picture
from qflow.labs.picture import Comparison, Picture, payload_of
from qflow.labs.scripts import STATIC, join_modules
from qflow.qflow_error import QflowError

NAMES = ("flow", "fanout", "groups", *POLICIES)


@cache
def pictures() -> dict[str, Picture]:
    """Return a picture of each kind, keyed by name."""
    return {
        "flow": flow_run(messages=120, stop=20, resume=10, capacity=5),
        "fanout": fanout_run(messages=60, stop=6, resume=3, capacity=4),
        "groups": group_run(messages="AABAB", prefetch=(1, 2)),
        **policy_run(messages=60).pictures,
    }


_SCRIPT = """
import { timelineOf } from "%(static)s/timeline.js";
import { Track } from "%(static)s/track.js";
import { outlookSentence, stateSentence, stepSentence } from "%(static)s/words.js";
import { played, playing, rested } from "%(here)s/js/played.js";
const wanted = %(payloads)s;
const shown = wanted.map((one) => ({ ...one, numbers: Uint8Array.from(Buffer.from(one.numbers, "base64")) }));
const timelines = await Promise.all(shown.map((one) => timelineOf(one, 1)));
console.log(JSON.stringify(%(expression)s));
"""


@pytest.fixture(scope="module", autouse=True)
def node() -> str:
    """Return the command of a Node version that can import the modules as they are."""
    found = shutil.which("node")
    asked = found and subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(map(int, asked.strip("v\n").split("."))) if asked else ()
    if not found or version < (20, 19):
        pytest.skip("Node 20.19 or later is not installed here")
    return found


def run_node(script: str) -> str:
    """Return the output of a module that Node runs."""
    command = ["node", "--input-type=module"]
    run = subprocess.run(command, input=script, capture_output=True, text=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_units_of_the_modules(node):
    folder = Path(__file__).parent.parent
    tests = sorted(folder.glob("*/js/*.test.js"))
    assert len(tests) >= 4
    run = subprocess.run([node, "--test", *map(str, tests)], capture_output=True, text=True, encoding="utf-8")
    assert run.returncode == 0, run.stdout[-6000:]


def test_modules_are_joined_or_it_is_said_why_not(tmp_path):
    def write(name: str, text: str) -> None:
        (tmp_path / name).write_text(text, encoding="utf-8")

    write("one.js", 'export const word = "one";\nconst own = 1;\n')
    write(
        "two.js",
        'import { word } from "./one.js";\nconst own = 2;\nexport default { said: `${word} ${own}` };\n',
    )
    script = join_modules("two.js", tmp_path).replace("export default", "const found =")
    said = run_node(f"{script}\nconsole.log(found.said);")
    assert said == "one 2\n"
    for text, said in [
        ('import { word } from "./none.js";\n', "one.js imports none.js, which is missing"),
        ('import { word } from "./two.js";\n', "modules import each other: one.js → two.js → one.js"),
        ("const word = 1;\n", "two.js imports word, which one.js does not export"),
    ]:
        write("one.js", text)
        with pytest.raises(QflowError, match=said):
            join_modules("one.js" if "import" in text else "two.js", tmp_path)


def evaluate(shown: Picture | Comparison, expression: str) -> Any:
    """Return the value of an expression over `timelines`, evaluated with the scripts of the scene."""
    payloads = [
        {**one, "numbers": base64.b64encode(bytes(one["numbers"])).decode()}  # type: ignore[call-overload]
        for one in payload_of(shown)
    ]
    places = {"static": STATIC.as_uri(), "here": Path(__file__).parent.as_uri()}
    script = _SCRIPT % {**places, "payloads": json.dumps(payloads), "expression": expression}
    return json.loads(run_node(script))


@pytest.mark.parametrize("name", NAMES)
def test_words_numbers_and_spans_are_those_of_the_frames(name):
    picture = pictures()[name]
    frames = picture.frames
    sentences = "[stepSentence(timelines[0], at), stateSentence(timelines[0], at)]"
    told = f"Array.from(timelines[0].times, (_, at) => {sentences})"
    depths = "timelines[0].topology.queues.map((_, at) => [...timelines[0].column('queue', at, 'depth')])"
    columns = [list(frames.column(f"queue.{spot.name}.depth")) for spot in frames.topology.queues]
    alive = "Array.from(timelines[0].times, (_, at) => [...timelines[0].stays.alive(at)])"
    stays = [list(frames.lasting["stays"].alive(at)) for at in range(frames.count)]
    times = [-1, *frames.column("time"), frames.topology.end + 1]
    at = f"{times}.map((time) => timelines[0].at(time))"
    assert evaluate(picture, f"[{told}, {depths}, {alive}, {at}]") == [
        [[step_sentence(frames, at), state_sentence(frames, at)] for at in range(frames.count)],
        columns,
        stays,
        [max(0, frames.index_at(time)) for time in times],
    ]


def test_runs_side_by_side_have_one_order_of_time():
    """Each place of the track shows, for every run, the last frame that is not later."""
    both = compare(pictures()["flow"], flow_run(messages=120, stop=30, resume=5, capacity=5))
    frames_at = "(track) => track.times.map((time, at) => [time, track.frame(0, at), track.frame(1, at)])"
    places = evaluate(both, f"({frames_at})(new Track(timelines))")
    runs = [picture.frames for picture in both.pictures.values()]
    assert len(places) == sum(frames.count for frames in runs)
    assert places == sorted(places)
    last = {time: shown for time, *shown in places}
    for time, shown in last.items():
        assert shown == [frames.index_at(time) for frames in runs]


def test_the_window_fills_the_first_time_and_the_sentence_says_what_may_be_sent():
    """In the first ON, the window fills."""
    picture = flow_run()
    (on, off), *_ = picture.frames.spans("queue.orders.flow")
    waits = picture.frames.spans("producer.p1.blocked")
    assert on < waits[0][0] < off
    filled, outlooks = evaluate(
        picture, "[timelines[0].filled, timelines[0].filled.map((at) => outlookSentence(timelines[0], at))]"
    )
    assert picture.frames.column("time")[filled[0]] == on
    assert outlooks == [
        "p1 may send 99 more before its window is full.",
        "p1 waits until orders turns OFF, or a held message of its own leaves orders.",
    ]
    slow = "track.stretch(1e5); return timelines[0].filled.map((at) => track.shown[at] / 1e5);"
    begins, ends = evaluate(picture, f"((track) => {{ {slow} }})(new Track(timelines))")
    took = ends - begins
    assert took >= 1.5, "play slows down at the turn"


def test_a_producer_with_nothing_to_send_says_until_when():
    picture = flow_run(messages=200, capacity=100, stop=60, resume=20, limit=200, rate=100, service=0.1)
    frames = picture.frames
    sent, times, flow = (frames.column(name) for name in ("producer.p1.sent", "time", "queue.orders.flow"))
    on = [frame for frame in range(frames.count) if flow[frame]]
    last = next(frame for frame in on if sent[frames.index_at(times[frame] + 500_000)] == sent[frame])
    assert evaluate(picture, f"outlookSentence(timelines[0], {last})").startswith(
        "p1 has nothing to send until "
    )


def counted(picture: Picture) -> dict[str, int]:
    """Count the events of a trace for each kind of mark."""
    kinds: Counter[str] = Counter()
    for event in picture.run.events:
        kinds[event.kind] += 1
        if event.kind == "dequeued":
            kinds[f"dequeued {dict(event.detail or {})['reason']}"] += 1
        if event.kind == "completed" and event.message:
            kinds["transfer completed"] += 1
    return {
        "transfer": kinds["message.transfer"],
        "completion": kinds["transfer completed"],
        "held": kinds["held"],
        "delivery": kinds["acquired"],
        "accept": kinds["dequeued accept"],
        "release": kinds["requeued"],
        "reject": kinds["dequeued reject"],
        "lock": kinds["group_owned"],
        "unlock": kinds["group_freed"],
    }


def by_hand() -> Picture:
    """Return a run with every way in which a consumer can settle a message, with groups."""
    table = GroupTable("AABC", prefetch=(1, 2))
    table.settle("c1", "accept")
    table.settle("c2", "release")
    table.settle("c2", "reject")
    table.send("A")
    table.settle("c1", "accept")
    return group_picture(table)


SLOW = {"stop": 20, "resume": 10, "limit": 40, "capacity": 8, "prefetch": 3}
PLAYED: dict[str, tuple[Callable[[], Picture], float]] = {
    "flow control": (lambda: flow_run(messages=60, rate=100, service=0.04, **SLOW), 1.0),
    # Two of its 70 transfers are held for less than 10 ms.
    "two producers": (
        lambda: capacity_run(messages=80, rate=25, stop=10, resume=5, capacity_1=4, capacity_2=3),
        2.0,
    ),
    "groups": (by_hand, 0.5),
}


@pytest.mark.parametrize("name", PLAYED)
def test_as_many_marks_are_shown_as_the_trace_has_events(name):
    make, speed = PLAYED[name]
    picture = make()
    shown, expected = evaluate(picture, f"played(timelines[0], {speed})"), counted(picture)
    if picture.drawing:
        # A conveyor is about consumers: it has no way back to a producer.
        expected = {kind: number for kind, number in expected.items() if kind not in ("completion", "held")}
    assert {kind: shown[kind] for kind in expected} == expected
    assert expected["transfer"] and expected["delivery"]
