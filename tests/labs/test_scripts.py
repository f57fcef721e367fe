"""The scripts without a browser: what they read off the numbers is what Python reads, in the same words."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from typing import Any

import pytest
from sentences import state_sentence, step_sentence

from qflow.labs import compare, fanout_run, flow_run, group_run, policy_run
from qflow.labs.picture import Comparison, Picture, payload_of
from qflow.labs.scripts import STATIC

PICTURES: dict[str, Picture] = {
    "flow": flow_run(messages=120, stop=20, resume=10, capacity=5),
    "fanout": fanout_run(messages=60, stop=6, resume=3, capacity=4),
    "groups": group_run(messages="AABAB", prefetch=(1, 2)),
    **policy_run(messages=60).pictures,
}

_SCRIPT = """
import { timelineOf } from "%s/timeline.js";
import { Track } from "%s/track.js";
import { stateSentence, stepSentence } from "%s/words.js";
const wanted = %s;
const shown = wanted.map((one) => ({ ...one, numbers: Uint8Array.from(Buffer.from(one.numbers, "base64")) }));
const timelines = await Promise.all(shown.map((one) => timelineOf(one, 1)));
console.log(JSON.stringify(%s));
"""


def evaluate(shown: Picture | Comparison, expression: str) -> Any:
    """Return what an expression over `timelines` comes to in the scripts of the scene."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed here")
    payloads = [
        {**one, "numbers": base64.b64encode(bytes(one["numbers"])).decode()}  # type: ignore[call-overload]
        for one in payload_of(shown)
    ]
    script = _SCRIPT % (STATIC.as_uri(), STATIC.as_uri(), STATIC.as_uri(), json.dumps(payloads), expression)
    command = [node, "--input-type=module"]
    run = subprocess.run(command, input=script, capture_output=True, text=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", PICTURES)
def test_every_frame_is_said_in_the_words_of_python(name):
    picture = PICTURES[name]
    frames = picture.frames
    sentences = "[stepSentence(timelines[0], at), stateSentence(timelines[0], at)]"
    told = f"Array.from(timelines[0].times, (_, at) => {sentences})"
    ours = [[step_sentence(frames, at), state_sentence(frames, at)] for at in range(frames.count)]
    assert evaluate(picture, told) == ours


@pytest.mark.parametrize("name", PICTURES)
def test_numbers_and_spans_are_those_of_the_frames(name):
    picture = PICTURES[name]
    frames = picture.frames
    depths = "timelines[0].topology.queues.map((_, at) => [...timelines[0].column('queue', at, 'depth')])"
    columns = [list(frames.column(f"queue.{spot.name}.depth")) for spot in frames.topology.queues]
    alive = "Array.from(timelines[0].times, (_, at) => [...timelines[0].stays.alive(at)])"
    stays = [list(frames.lasting["stays"].alive(at)) for at in range(frames.count)]
    times = [-1, *frames.column("time"), frames.topology.end + 1]
    at = f"{times}.map((time) => timelines[0].at(time))"
    assert evaluate(picture, f"[{depths}, {alive}, {at}]") == [
        columns,
        stays,
        [max(0, frames.index_at(time)) for time in times],
    ]


def test_runs_side_by_side_have_one_order_of_time():
    """Each place of the track shows of every run the last frame that is not later."""
    both = compare(PICTURES["flow"], flow_run(messages=120, stop=30, resume=5, capacity=5))
    frames_at = "(track) => track.times.map((time, at) => [time, track.frame(0, at), track.frame(1, at)])"
    places = evaluate(both, f"({frames_at})(new Track(timelines))")
    runs = [picture.frames for picture in both.pictures.values()]
    assert len(places) == sum(frames.count for frames in runs)
    assert places == sorted(places)
    last = {time: shown for time, *shown in places}
    for time, shown in last.items():
        assert shown == [frames.index_at(time) for frames in runs]
