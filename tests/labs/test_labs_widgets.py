"""The labs' widgets without a browser: sliders, buttons, questions, tokens, files, and closing."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import html
import json
import random
import re
import threading
import xml.etree.ElementTree as ElementTree
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from ipywidgets.widgets.widget import _instances
from sentences import ask, state_sentence
from waiting import all_else_is_over, until

from qflow import labs
from qflow.kit import RefusalError, kit_path
from qflow.labs import (
    Comparison,
    Lab,
    bytes_chart,
    capacity_lab,
    capacity_run,
    config_lab,
    depth_chart,
    flow_lab,
    flow_run,
    flow_workload,
    group_lab,
    group_run,
    held_chart,
    latency_chart,
    open_token,
    ownership_chart,
    picture_of,
    save_html,
    state_space_lab,
    trace_lab,
)
from qflow.labs.experiments import HISTORY, POLICY
from qflow.labs.html_export import to_html
from qflow.labs.knobs import STOP
from qflow.labs.lab import _actions_of, _fork_picture, _why
from qflow.labs.opened import _replay_picture
from qflow.labs.picture import payload_of
from qflow.labs.scene import _plotly_script
from qflow.labs.share import LABS, Token, TokenError, _engine_hash, run_of_token
from qflow.labs.slider_lab import SliderLab
from qflow.maintain import notebooks
from qflow.teaching.rules import RULE, rule_book
from qflow.trace.files import write_trace
from qflow.trace.replaying import trace_of
from qflow.trace.schema import TraceError
from qflow.trace.timeline import Timeline
from qflow.workload import Consumer, Producer, Workload, simulate

OPENERS = {
    name: partial(getattr(labs, f"{name}_lab"), messages=60) for name in LABS[: LABS.index("state_space")]
}
OPENERS["state_space"] = partial(state_space_lab, stop=1, resume=1, limit=9, capacity_1=1, capacity_2=0)


@pytest.fixture
def small():
    return capacity_lab(messages=80, stop=20, resume=10, limit=60, capacity_1=5, capacity_2=5)


@pytest.mark.parametrize("name", sorted(OPENERS))
def test_every_slider_names_a_rule(name):
    for slider in OPENERS[name]().sliders.values():
        assert set(RULE.findall(slider.tooltip)) & set(rule_book()), slider


@pytest.mark.parametrize("name", sorted(OPENERS))
def test_every_lab_moves_refuses_and_is_shared(name):
    lab = OPENERS[name]()
    for slider in lab.sliders.values():
        before, run = lab.picture, lab.scene.run
        slider.value += slider.step
        assert lab.picture is not before and lab.scene.run > run
        assert lab.scene.refusal == ""
        shown = [one["numbers"] for one in payload_of(lab.picture)]
        assert [one["numbers"] for one in lab.scene.pictures] == shown
        said = html.unescape(lab.children[-1].value)
        assert all(claim.split("“")[0] in said for claim in lab.claims)
    kept = (lab.picture, lab.scene.run)
    if "resume" in lab.sliders:
        lab.sliders["resume"].value = lab.sliders["stop"].value + 1
        assert "must be less or equal to qpid.flow_stop_count" in lab.scene.refusal
        assert (lab.picture, lab.scene.run) == kept
        assert open_token(lab.token(0, 0)).claims == lab.claims, "a token is of what is shown"
        lab.sliders["resume"].value = 0
        assert lab.scene.refusal == ""
    token = Token.read(lab.token(1_000, 0))
    assert (token.lab, token.time, token.engine) == (name, 1_000, _engine_hash())
    again = open_token(token.text())
    assert again.settings == lab.settings
    assert again.claims == lab.claims
    assert again.scene.place == {"time": 1_000, "back": 0}


def test_a_lab_that_is_closed_says_so(small):
    small.compare()
    small.close()
    for ask_for in (small.compare, lambda: small.chart(labs.held_chart)):
        with pytest.raises(RefusalError, match="this lab shows no picture: it is closed"):
            ask_for()


def test_a_token_of_another_engine_says_so():
    lab = open_token(Token("flow", {"messages": 20, "limit": 1_000}, engine="0" * 12).text())
    assert "made with another engine (000000000000" in lab.scene.refusal
    assert lab.scene.run == 1


def test_a_token_opens_every_lab_but_one():
    there = {name.removesuffix("_lab") for name in dir(labs) if name.endswith("_lab")}
    assert there == {*LABS, "recorded"}
    lab = Lab(flow_run(messages=5))
    assert "token" not in lab.scene.offers
    with pytest.raises(TokenError, match="no token can open this lab"):
        lab.token(0, 0)


def packed(value: object) -> str:
    """Encode any value as tokens are encoded."""
    plain = json.dumps(value).encode()
    return "qf1." + base64.urlsafe_b64encode(zlib.compress(plain)).decode().rstrip("=")


def test_a_token_with_one_letter_cut_or_changed_is_never_read_as_another():
    """The checksum detects it; one letter may differ in bits that are not used."""
    whole = Token("capacity", {"stop": 90, "resume": 70}, time=1_234_567, back=3)
    text = whole.text()
    chance = random.Random(1)
    spoilt = {text[:n] for n in range(len(text))}
    for _ in range(300):
        place, letter = chance.randrange(len(text)), chance.choice("AZaz09-_ .é漢\n{")
        spoilt.add(text[:place] + letter + text[place + 1 :])
        spoilt.add(text[:place] + letter + text[place:])
    for wrong in spoilt - {text}:
        try:
            assert Token.read(wrong) == whole, wrong
        except TokenError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ("", "this is no token of a lab"),
        ("qf1.abc", "this token is not whole"),
        (Token("flow", {}).text()[:-9], "this token is not whole"),
        (None, "this token is not whole"),
        (["flow", {}, 0, 0], "this token is not whole"),
        ([["flow"], {}, 0, 0, "e"], r"of a lab \['flow'\]; here there are bytes"),
        (["x" * 9_999, {}, 0, 0, "e"], "here there are bytes"),
        (["flow", {"carrots": 3}, 0, 0, "e"], "no setting 'carrots'"),
        (["flow", {"stop": 1, "resume": 2}, 0, 0, "e"], "refuses the settings of this token: invalid-arg"),
        (["flow", [], 0, 0, "e"], r"settings must be a map, got \[\]"),
        (["flow", {}, "soon", 0, "e"], "time must be a whole number of microseconds from 0, got 'soon'"),
        (["flow", {}, 1e300, 0, "e"], "time must be a whole number"),
        (["flow", {}, 0, -1, "e"], "steps back must be a whole number from 0, got -1"),
        (["flow", {}, 0, 0, None], "engine must be its hash, got None"),
        (["flow", {"stop": "x"}, 0, 0, "e"], "flow_lab: stop must be a number, got 'x'"),
        (["history", {"messages": -1}, 0, 0, "e"], "a whole number from 1 to 1,000,000, got -1"),
        (["policy", {"messages": 1.5}, 0, 0, "e"], "a whole number from 1 to 1,000,000, got 1.5"),
        (["config", {"text": {}}, 0, 0, "e"], "expected a unicode string"),
        (["config", {"broker_options": None}, 0, 0, "e"], "the lab of this token is another one here"),
        (["group", {"wake_up": [1]}, 0, 0, "e"], r"wake_up: got \[1\]"),
        (["group", {"moves": [["fly", "A-1"]]}, 0, 0, "e"], "the lab of this token is another one here"),
        (["trace", {"path": "x.txt"}, 0, 0, "e"], r"opens the file 'x.txt' of this machine"),
        (["trace", {"path": 3}, 0, 0, "e"], "the lab of this token is another one here"),
        ([0] * 3_000_000, "this token is not whole"),
    ],
)
def test_a_token_that_makes_no_sense_ends_in_one_short_sentence(values, said):
    with pytest.raises(TokenError, match=said) as refusal:
        open_token(values if isinstance(values, str) else packed(values))
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("paces", [(), (2.0, 1.0)], ids=["by hand", "at work"])
def test_a_token_of_groups_brings_what_was_played(paces):
    lab = group_lab(messages="AAB", prefetch=(1, 1), paces=paces)
    lab.settle("c2", "release", time=600_000)
    lab.settle("c1", "accept", time=700_000)
    again = open_token(lab.token(0, 0))
    assert (again.claims, again.table.moves) == (lab.claims, lab.table.moves)
    assert again.table.broker.state_hash() == lab.table.broker.state_hash()


def test_a_token_of_a_configuration_brings_what_was_typed():
    lab = config_lab("orders --max-queue-count 90")
    lab.typed.value = '{"qpid.max_count": 200}'
    kept = lab.claims
    assert lab._repr_mimebundle_()["image/svg+xml"] == lab.picture.svg, "for readers without a kernel"
    lab.typed.value = "orders --no-such-option 3"
    lab._button.click()
    again = open_token(lab._token.value)
    assert again.claims == kept
    assert "made with another engine" not in again._refusal.value
    other = open_token(Token("config", {"text": "orders"}, engine="0" * 12).text())
    assert "made with another engine (000000000000" in other._refusal.value


def test_a_token_of_a_file_tells_whether_it_is_the_same_file(tmp_path):
    path = tmp_path / "run.jsonl"
    write_trace(trace_of(simulate(flow_workload(stop=20, resume=10), message_limit=60)), path)
    lab = trace_lab(path, queues=["orders"])
    text = lab.token(1_000, 0)
    open_it = partial(open_token, text, allow_files=True)
    again = open_it()
    assert (again.claims, again.scene.refusal, again.scene.place["time"]) == (lab.claims, "", 1_000)
    write_trace(trace_of(simulate(flow_workload(stop=30, resume=10), message_limit=60)), path)
    assert "run.jsonl is not the file that this token was made of" in open_it().scene.refusal
    path.unlink()
    with pytest.raises(TokenError, match=r"the file this token is about is not here: .*run\.jsonl"):
        open_it()


RING = kit_path("data") / "recordings" / "workloads" / "ring.csv.gz"


def test_a_token_may_name_a_recording_of_the_kit_and_finds_it_wherever_the_kit_is():
    lab = trace_lab(RING)
    assert lab.settings["path"] == "recordings/workloads/ring.csv.gz"
    assert open_token(lab.token(0, 0)).claims == lab.claims


@pytest.mark.parametrize(
    ("lab", "settings"),
    [
        ("trace", {"path": "{file}"}),
        ("trace", {"path": "recordings/../../../../../../../{file}"}),
        ("trace", {"path": "recordings/workloads/ring.csv.gz", "workload": "{file}"}),
        ("config", {"broker_options": "--config={file}"}),
        ("config", {"broker_options": "--config {file}"}),
    ],
)
def test_a_token_reads_no_file_of_this_machine_unless_it_is_allowed(tmp_path, lab, settings):
    file = tmp_path / "secret.jsonl"
    file.write_text("hello\n")
    settings = {name: value.format(file=file) for name, value in settings.items()}
    with pytest.raises(TokenError, match="if you trust its sender, allow it") as refusal:
        open_token(Token(lab, settings).text())
    assert "hello" not in str(refusal.value)
    with pytest.raises(RefusalError) as heard:
        open_token(Token(lab, settings).text(), allow_files=True)
    assert "allow_files" not in str(heard.value)


# Configuration


def test_typing_tries_it_and_keeps_what_could_be_read():
    lab = config_lab("orders --max-queue-count 90")
    lab.typed.value = "orders --max-queue-count 100 --flow-stop-count 5"
    assert "must be less or equal" in lab._refusal.value
    kept = lab.picture
    lab.typed.value = "orders --no-such"
    assert "cannot be read" in lab._refusal.value
    assert lab.picture is kept
    lab.typed.value = "orders; {create: always, node: {x-declare: {arguments: {'qpid.max_count': 200}}}}"
    assert lab._refusal.value == ""
    assert lab.picture.values()["stop_count"].value == 160
    lab.options.value = "--default-flow-stop-threshold=50"
    assert "does not start" in lab._refusal.value
    lab.options.value = "--default-flow-stop-threshold=90"
    assert lab.picture.values()["stop_count"].value == 180


# States


def test_choosing_a_state_loads_its_history():
    lab = state_space_lab(stop=2, resume=1, capacity_1=2, capacity_2=0)
    run = lab.scene.run
    lab.states.chosen = 0
    assert lab.scene.run == run + 1
    assert "State 0 is: depth 0" in "\n".join(lab.claims)
    lab.states.chosen = lab.space.states.deepest
    ask(lab, ask="why", picture=0, subject="queue:q", number=1, frame=lab.picture.frames.count - 1)
    assert lab.scene.answer["links"][0]["text"].startswith("q has been ON since")
    assert "purge:q" in dict(lab.scene.actions)
    ask(lab, ask="fork", action="leave:C1", time=200_000, back=0, frame=4)
    assert list(lab.picture.pictures) == ["as it was", "C1 goes away (clients act as recorded)"]
    nodes = lab.states.graph["nodes"]
    assert len(nodes) == len(lab.space.states.graph)
    json.dumps(lab.states.graph)


def test_the_game_counts_moves_and_compares_them_with_the_shortest_way():
    """With stop 2 and a window of 2, no state is deeper than 4."""
    lab = state_space_lab(stop=2, resume=1, capacity_1=2, capacity_2=0)
    lab._game.click()
    assert set(lab.moves) == {"C1 sends", "consumer takes and accepts"}
    assert lab.moves["consumer takes and accepts"].disabled and lab.states.walk == [0]
    lab.moves["C1 sends"].click()
    lab.moves["consumer takes and accepts"].click()
    assert lab.states.walk == [0, 1, 0] and "After 2 moves: depth 0" in lab._said.value
    for _ in range(4):
        lab.moves["C1 sends"].click()
    assert "The shortest way there has 4 moves: yours has 2 more." in lab._said.value
    assert lab.picture.frames.at(-1)["queue.q.depth"] == 4 and lab.walk.is_deepest
    assert lab.moves["C1 sends"].disabled and lab._said.value.startswith("<p>After 6 moves: depth 4 ON")
    lab._back.click()
    assert lab.walk.depth == 3 and not lab.moves["C1 sends"].disabled
    lab._game.click()
    assert lab.walk is None and lab.states.walk == [] and lab.space.node == lab.states.chosen


def test_in_the_game_a_click_on_a_state_is_a_move_if_one_leads_there():
    lab = state_space_lab(stop=2, resume=1, capacity_1=2, capacity_2=0)
    lab.play_game()
    lab.states.chosen = 1
    assert lab.walk.actions == ("C1 sends",)
    lab.states.chosen = lab.space.states.deepest
    assert lab.states.chosen == 1 and "No single move leads to state" in lab._said.value
    with pytest.raises(RefusalError, match="'C2 sends' is not possible in state 1; possible: C1 sends"):
        lab.move_on("C2 sends")
    lab.sliders["stop"].value = 3
    assert lab.walk is None and lab.states.walk == []


# Why


def why(picture, frame, subject):
    return _why(picture, frame, subject, Timeline(trace_of(picture.run)))


def test_why_follows_the_engine_and_its_links_lead_to_frames():
    picture = flow_run(messages=300, stop=20, resume=10, capacity=5)
    frame = picture.frames.transitions[0].frame + 1
    told = why(picture, frame, "queue:orders")
    assert told[0]["text"].startswith("orders has been ON since")
    assert told[0]["rules"] == ["FC-14"]
    assert told[0]["frame"] == picture.frames.transitions[0].frame
    assert all(0 <= link["frame"] < picture.frames.count for link in told)
    with pytest.raises(TraceError):
        why(picture, frame, "queue:nowhere")


def test_why_is_answered_for_all_of_an_instant():
    """A subscription takes three commands, one of which makes a frame; credit is granted after it."""
    picture = group_run(messages="AAA", prefetch=(1, 1), actions=())
    last = picture.frames.count - 1
    texts = [link["text"] for link in why(picture, last, "consumer:c2")]
    assert "A-2 is of group A, which is not c2's." in texts
    assert not [text for text in texts if "granted" in text]


WINDOW_PICTURES = {
    "groups by hand": lambda: group_run(messages="AABB", prefetch=(1, 1), actions=[("c1", "accept")] * 2),
    "groups that work": lambda: group_run(messages="AABBAC", prefetch=(1, 2), paces=(2.0, 0.5)),
    "flow": lambda: flow_run(messages=60, stop=10, resume=5, prefetch=3, service=0.02),
}


@pytest.mark.parametrize("name", WINDOW_PICTURES)
def test_why_and_the_picture_say_the_same_of_a_window(name):
    """CN-06: deliveries that are not completed are those that the picture counts as prefetched."""
    picture, seen = WINDOW_PICTURES[name](), 0
    timeline = Timeline(trace_of(picture.run))
    for frame in range(picture.frames.count):
        shown = picture.frames.at(frame)
        for spot in picture.frames.topology.consumers:
            links = _why(picture, frame, f"consumer:{spot.name}", timeline)
            said = "".join(link["text"] for link in links if link["subject"] == f"consumer:{spot.name}")
            for used, granted in re.findall(r"(\d+) of (\d+) messages of its window", said):
                seen += 1
                assert (int(used), int(granted)) == (shown[f"consumer.{spot.name}.holds"], spot.prefetch)
    assert seen


def test_the_scene_is_answered(small):
    ask(small, ask="why", picture=0, frame=40, subject="producer:C1", number=3)
    assert (small.scene.answer["number"], small.scene.answer["subject"]) == (3, "producer:C1")
    assert small.scene.answer["links"]
    ask(small, ask="why", picture=0, frame=40, subject="nobody:x", number=4)
    assert small.scene.answer["refusal"]


def test_what_is_held_is_no_reason_for_a_producer_to_be_free():
    """A producer may send because its window has room."""
    picture = flow_run(messages=200, stop=20, resume=10, capacity=50)
    frames = picture.frames
    held, blocked = (frames.column(f"producer.p1.{name}").tolist() for name in ("held", "blocked"))
    frame = next(index for index in range(frames.count) if held[index] and not blocked[index])
    texts = [link["text"] for link in why(picture, frame, "producer:p1")]
    assert "p1 is not blocked" in texts[0] and "of 50 outstanding" in texts[0]
    assert not [text for text in texts if "not complete" in text]


@pytest.fixture(scope="module")
def two_clients():
    """Return the capacity experiment, run until a little after both clients wait."""
    return capacity_run(messages=300)


def test_a_full_window_with_nothing_to_send_is_no_decision_of_the_producers(two_clients):
    """CAP-01, CAP-08: it is not blocked yet, but its next message will wait."""
    frames = two_clients.frames
    full = frames.column("producer.C1.outstanding").index(50)
    assert frames.at(full)["producer.C1.blocked"] == 0
    texts = [link["text"] for link in why(two_clients, full, "producer:C1")]
    assert texts[0] == "C1 is not blocked, as it has nothing to send now: C1 has 50 of 50 outstanding."
    assert texts[1].startswith("Its next message, C1-108, has to wait until a transfer is complete; ")


def test_a_producer_whose_window_was_just_emptied_does_not_wait_with_a_full_one(two_clients):
    """FC-16, CAP-01: at OFF everything is complete before the producer continues."""
    picture = two_clients
    off = next(change for change in picture.frames.transitions if not change.is_on)
    said = state_sentence(picture.frames, off.frame)
    assert "C1: 0 of 50 outstanding, waiting." in said
    before = state_sentence(picture.frames, off.frame - 1)
    assert "C1: 50 of 50 outstanding, waiting with a full window." in before


# Forks and comparisons


def test_a_fork_is_the_same_up_to_its_frame_and_another_run_after_it():
    picture = flow_run(messages=200, stop=20, resume=10, capacity=5)
    frame = picture.frames.transitions[2].frame
    assert set(_actions_of(picture)) == {"purge:orders", "leave:c1", "leave:p1"}
    for action in _actions_of(picture):
        both = _fork_picture(picture, frame, action)
        was, now = both.pictures.values()
        pairs = zip(was.run.events, now.run.events, strict=False)
        common = next(index for index, (one, other) in enumerate(pairs) if one[:7] != other[:7])
        assert was.run.events[common].time >= picture.frames.at(frame)["time"]
    with pytest.raises(KeyError, match="no action 'explode'"):
        _fork_picture(picture, frame, "explode")


def test_the_clients_of_a_simulated_fork_react():
    """CN-06: a producer keeps to its window, and a consumer continues at once."""
    picture = flow_run(messages=200, stop=20, resume=10, capacity=5)
    frame = picture.frames.transitions[0].frame + 20
    gone = _fork_picture(picture, frame, "leave:c1").pictures["c1 goes away"].frames
    assert max(gone.column("producer.p1.outstanding")) <= 5
    assert gone.at(-1)["producer.p1.blocked"] == 1
    purged = _fork_picture(picture, frame, "purge:orders").pictures["orders is purged"]
    assert purged.frames.at(-1)["producer.p1.sent"] == 200
    assert purged.frames.at(-1)["consumer.c1.holds"] == 0


@pytest.mark.parametrize("verdict", ["accept", "release", "reject"])
@pytest.mark.parametrize("messages", [60, 0], ids=["simulated", "recorded"])
def test_a_message_at_a_consumer_can_be_answered_by_hand(verdict, messages):
    """CN-13, CN-14."""
    picture = replace(flow_run(messages=60, stop=20, resume=10), messages=messages)
    holdings, stays = (picture.frames.lasting[name] for name in ("holdings", "stays"))
    frame = 80
    row = list(holdings.alive(frame))[-1]
    label = f"p1-{stays.get(holdings.get(row, 'stay'), 'number')}"
    both = _fork_picture(picture, frame, f"{verdict}:c1:{label}")
    forked = list(both.pictures.values())[1].run.events
    time = picture.frames.at(frame)["time"]
    kinds = {event.kind for event in forked if event.message == label and event.time == time}
    assert ("requeued" if verdict == "release" else "dequeued") in kinds
    with pytest.raises(TraceError, match="c1 does not hold p1-1 at that instant"):
        _fork_picture(picture, frame, f"{verdict}:c1:p1-1")


def test_fork_and_compare_from_the_scene(small):
    alone = small.picture
    ask(small, ask="fork", action="purge:orders", frame=60, time=small.picture.frames.at(60)["time"], back=0)
    assert list(small.picture.pictures) == ["as it was", "orders is purged"]
    assert "pinned" in small.scene.offers
    ask(small, ask="compare", frame=0, time=0, back=0)
    assert small.picture is alone
    ask(small, ask="compare", frame=0, time=0, back=0)
    assert list(small.picture.pictures) == ["pinned", "now"]
    small.sliders["capacity_1"].value = 9
    capacities = [p.frames.topology.producers[0].capacity for p in small.picture.pictures.values()]
    assert capacities == [5, 9]
    ask(small, ask="compare", frame=0, time=0, back=0)
    assert small.picture.frames.topology.producers[0].capacity == 9


def test_share_and_save_from_the_scene(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ask(small, ask="token", time=5_000, back=1, frame=3)
    assert Token.read(small.scene.token).time == 5_000
    token, sent = small.scene.token, []
    monkeypatch.setattr(small.scene, "send", lambda content, buffers=None: sent.append((content, buffers)))
    ask(small, ask="html", time=5_000, back=1, frame=3)
    [(content, [page])] = sent
    assert content == {"page": "qflow-run.html"}
    assert page.decode().count("qflow-stored") == 1
    assert small.scene.token == token, "the field of tokens is for tokens"
    assert not list(tmp_path.iterdir()), "nothing is written beside the chapters"


RUN = r'<script type="application/json" class="qf-run">(.*?)</script>'


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text.translate(str.maketrans("-_.", "+/0"))))


def test_a_file_of_a_run_asks_nobody(tmp_path):
    page = save_html(flow_run(messages=40), tmp_path / "run.html", "A <run>").read_text()
    assert "A &lt;run&gt;" in page
    packed = re.search(r'\("([^"]+)"\);</script>', page)[1]
    assert not set("+/0") & set(packed), "no tidying of outputs takes it for an address"
    scripts = unpacked(packed).decode()
    assert "function render(" in scripts and ".qflow-scene {" in scripts
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page + scripts)
    assert "import " not in scripts and "export " not in scripts
    json.loads(re.search(RUN, page, re.S)[1])
    assert to_html(flow_run(messages=40)) == to_html(flow_run(messages=40)), "the same run, the same bytes"


ODD = "<!--<script>&</script>\u2028 <b>%{y}</b> $x$"


def odd_picture():
    """Return a run with names that HTML, scripts, and plotly's markup and templates could interpret."""
    producer = Producer("p1", ("", ODD), rate=100, capacity=2, size=10, groups=(2, 1.0))
    consumer = Consumer(ODD, ODD, prefetch=2, service=("const", 0.02))
    arguments = {"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 2, "qpid.group_header_key": "group"}
    queues = {ODD: {**arguments, "qpid.shared_msg_group": 1}}
    return picture_of(simulate(Workload("odd", 5, queues, (), (producer,), (consumer,)), message_limit=20))


def test_a_name_in_a_file_of_a_run_ends_no_script_and_begins_none():
    page = to_html(odd_picture())
    text = re.search(RUN, page, re.S)[1]
    assert not set("<>&\u2028\u2029") & set(text)
    (picture,) = json.loads(text)["pictures"]
    assert picture["topology"]["queues"][0]["name"] == ODD


def test_a_notebook_keeps_the_run_of_a_lab_to_play(small):
    kept = small._repr_mimebundle_()["text/html"]
    claims = kept.split("<script")[0]
    assert all(html.escape(claim) in claims for claim in small.claims), "what is left without scripts"
    (picture,) = json.loads(re.search(RUN, kept, re.S)[1])["pictures"]
    numbers = unpacked(picture["numbers"])
    assert numbers == zlib.decompress(small.scene.pictures[0]["numbers"])
    assert hashlib.sha256(numbers).hexdigest() == picture["digest"]
    assert notebooks._tidy_text(kept) == kept, "nothing in it is taken for an address or a folder"
    assert "text/html" not in Lab(Comparison({}, ("not yet",)))._repr_mimebundle_()


# Charts


def texts_of(value) -> list[str]:
    """Return all texts in a figure."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, str) or not isinstance(value, list | tuple):
        return [value] if isinstance(value, str) else []
    return [text for one in value for text in texts_of(one)]


@pytest.mark.parametrize(
    "make",
    [depth_chart, bytes_chart, held_chart, latency_chart, ownership_chart],
)
def test_names_in_a_chart_are_letters_and_no_markup(make):
    chart = make(odd_picture())
    figure = chart.figure.to_plotly_json()
    texts = texts_of([figure["data"], {**figure["layout"], "template": None}])
    named = [text for text in texts if "script" in text]
    assert named or make in (held_chart, latency_chart)
    for text in texts:
        assert set(re.findall(r"</?(\w+)", text)) <= {"b", "extra"}
        assert not re.search(r"\$.*\$", text)
    for text in named:
        assert "%{y}" not in text.replace(": %{y} ", "")
        assert ODD in html.unescape(re.sub(r"</?(b|extra)>", "", text))
    page = ElementTree.fromstring(chart.svg)
    assert not [one for one in page.iter() if one.tag.endswith("script")]


def test_every_chart_comes_in_three_forms():
    picture = capacity_run(messages=200)
    several = (depth_chart, bytes_chart, held_chart, latency_chart, ownership_chart)
    for make, shown in (*((make, picture) for make in several), (ownership_chart, group_run())):
        chart = make(shown)
        bundle = chart._repr_mimebundle_()
        assert set(bundle) == {"application/vnd.plotly.v1+json", "image/svg+xml", "text/plain"}
        ElementTree.fromstring(bundle["image/svg+xml"])
        assert bundle["text/plain"] == "\n".join(chart.claims) != ""


def test_owners_are_told_apart_without_colours():
    chart = ownership_chart(group_run(messages="AABBCC", prefetch=(1, 1, 1)))
    bars = chart.figure.data
    assert {bar.name: set(bar.text) for bar in bars if bar.y} == {
        name: {f"<b>{name}</b>"} for name in ("c1", "c2", "c3")
    }
    assert len({bar.marker.pattern.shape for bar in bars}) == len(bars)
    assert ">c2</text>" in chart.svg
    assert chart.svg.count("<pattern") == 3


def test_a_linked_chart_shows_every_later_run(small):
    chart = small.chart(bytes_chart, queue="orders")
    assert chart.cursor_of is small.scene
    assert chart.has_time
    assert not small.chart(latency_chart).has_time
    before = chart.figure
    small.sliders["capacity_1"].value += 5
    assert chart.figure != before
    assert str(chart) == str(bytes_chart(small.picture, queue="orders"))
    bundle, _ = chart._repr_mimebundle_()
    assert bundle["text/plain"] == str(chart)
    ElementTree.fromstring(bundle["image/svg+xml"])
    small.close()
    assert chart.comm is None


def test_a_page_asks_once_for_plotlys_script_and_is_told_if_there_is_none(small, monkeypatch):
    chart = small.chart(held_chart)
    sent = []
    monkeypatch.setattr(chart, "send", lambda content, buffers=None: sent.append((content, buffers)))
    chart._handle_custom_msg({"ask": "plotly"}, [])
    ((content, (script,)),) = sent
    assert content == {"script": "plotly"}
    assert b"Plotly" in gzip.decompress(script)
    monkeypatch.setattr("qflow.labs.scene.files", lambda _: tmp_nowhere)
    tmp_nowhere = Path("nowhere")
    _plotly_script.cache_clear()
    chart._handle_custom_msg({"ask": "plotly"}, [])
    assert "which is not installed beside this kernel" in sent[1][0]["missing"]


def test_the_latencies_are_the_events_own():
    picture = capacity_run(messages=200)
    chart = latency_chart(picture)
    reported = sum(
        1 for row in picture.frames.lasting["sendings"].column("end") if row < picture.frames.count
    )
    assert sum(chart.figure.data[0].y) == reported
    assert chart.claims[0].startswith(f"Of {reported} completed transfers")


# Manners


class Slow:
    """A run of a given number of steps, each of which takes some time."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.taken = 0
        self.finished: list[float] = []

    def __call__(self, stop: float, **_: float):
        import time

        for step in range(self.steps if stop > 5 else 1):
            time.sleep(0.01)
            self.taken += 1
            yield step / self.steps
        self.finished.append(stop)
        return flow_run(messages=10, stop=int(stop) or 1, resume=1)


def slow_lab(steps: int) -> tuple[SliderLab, Slow]:
    slow = Slow(steps)
    return SliderLab([replace(STOP, high=100)], {"stop": 1}, slow), slow


def rest(lab: SliderLab, value: int) -> None:
    """Send the message that the browser sends for a held slider that rests."""
    lab._receive(lab.scene, {"ask": "rest", "setting": "stop", "value": value}, [])


def let_go(lab: SliderLab, value: int) -> None:
    lab.sliders["stop"].value = value


@pytest.mark.parametrize("begin", [rest, let_go])
def test_a_long_run_makes_room_for_a_later_one_and_never_comes_back_over_it(begin):
    lab, slow = slow_lab(400)

    async def learner() -> None:
        before = slow.taken
        begin(lab, 50)
        await until(lambda: slow.taken > before, "the run of 50 has begun")
        let_go(lab, 3)
        await all_else_is_over()

    asyncio.run(learner())
    assert slow.finished == [1, 3]
    assert lab.first.frames.topology.queues[0].stop_count == 3
    assert lab.scene.progress == 0


def test_where_a_slider_rested_is_not_where_it_is():
    lab, slow = slow_lab(3)
    rest(lab, 500)
    assert slow.finished == [1, 100], "beyond its range"
    assert lab.settings == {"stop": 1}
    lab.sliders["stop"].value = 100
    assert slow.finished == [1, 100], "let go of where it rested, it is not run again"
    assert lab.first.frames.topology.queues[0].stop_count == 100
    lab.sliders["stop"].value = 1
    rest(lab, 1)
    assert slow.finished == [1, 100, 1], "resting on is no news"
    lab._receive(lab.scene, {"ask": "rest", "setting": "nothing", "value": 1}, [])
    assert slow.finished == [1, 100, 1]


@pytest.mark.parametrize("experiment", [HISTORY, POLICY])
def test_progress_of_several_runs_only_grows(experiment):
    parts = list(experiment.steps(messages=60))
    assert parts == sorted(parts)
    assert parts[-1] == 1


def test_a_long_run_can_be_cancelled():
    lab, slow = slow_lab(400)
    kept = lab.picture

    async def learner() -> None:
        lab.sliders["stop"].value = 50
        await until(lambda: lab.scene.running, "the run can be cancelled")
        assert 0 < lab.scene.progress < 1
        lab.scene.cancelled = lab.scene.running
        await all_else_is_over()

    asyncio.run(learner())
    assert slow.finished == [1]
    assert lab.picture is kept
    assert lab.scene.refusal.startswith("Cancelled.")
    lab.sliders["stop"].value = 2
    assert lab.scene.refusal == ""


def test_without_a_loop_a_long_run_goes_on_to_its_end():
    lab, slow = slow_lab(80)
    lab.sliders["stop"].value = 50
    assert slow.finished == [1, 50]


@pytest.fixture
def slow_file(tmp_path, monkeypatch):
    """Return a log that counts as large, and whose replay waits for the test."""
    monkeypatch.setattr("qflow.labs.trace_widget.LARGE", 0)
    monkeypatch.setattr("qflow.labs.trace_widget._BREATH", 0.01)
    look = threading.Event()

    def replayed(log, workload, tell):
        tell(len(log.rows) // 2)
        assert look.wait(20)
        tell(len(log.rows))
        return _replay_picture(log, workload)

    monkeypatch.setattr("qflow.labs.opened._replay_picture", replayed)
    kept = kit_path("data") / "recordings" / "workloads"
    (path,) = kept.glob("overflow-despite-flow-control.csv.gz")
    return path, look


async def read_whole(path, **more):
    lab = trace_lab(path, **more)
    await lab._task
    return lab


def test_a_file_opens_at_an_instant(slow_file):
    """As ``qflow design`` does for a run that misses a goal; a large file opens there later."""
    path, look = slow_file
    look.set()
    assert trace_lab(RING, at=0.5).scene.place["time"] == 500_000
    assert asyncio.run(read_whole(path, at=1.25)).scene.place["time"] == 1_250_000


def test_a_long_file_is_opened_while_its_lab_is_there(slow_file):
    path, look = slow_file

    async def opened():
        lab = trace_lab(path)
        assert lab.claims == (f"{path.name} is being read.",)
        assert lab.scene.run == 0
        await until(lambda: lab.scene.progress >= 0.35, "half of the replay is told")
        assert lab.scene.progress < 0.45
        look.set()
        await lab._task
        return lab

    lab = asyncio.run(opened())
    assert (lab.scene.run, lab.scene.progress, lab.scene.refusal) == (1, 0, "")
    assert lab.claims == trace_lab(path).claims
    assert lab.token(0, 0)


def test_nobody_has_to_wait_for_a_long_file(slow_file):
    path, look = slow_file

    async def cancelled():
        lab = trace_lab(path)
        await until(lambda: lab.scene.running, "the reading can be cancelled")
        lab.scene.cancelled = lab.scene.running
        await lab._task
        return lab

    lab = asyncio.run(cancelled())
    look.set()
    assert lab.scene.refusal == f"Cancelled: {path.name} is not read. Run the cell again to read it."
    assert (lab.scene.run, lab.scene.progress) == (0, 0)
    assert lab.claims == (f"{path.name} is not read.",)
    lab.close()


def test_a_file_that_is_none_is_refused_at_once_or_told_in_the_lab(tmp_path, monkeypatch):
    path = tmp_path / "none.jsonl"
    path.write_text("hello\n")
    with pytest.raises(TraceError, match="none.jsonl"):
        trace_lab(path)
    monkeypatch.setattr("qflow.labs.trace_widget.LARGE", 0)
    assert "none.jsonl" in asyncio.run(read_whole(path)).scene.refusal


def test_closing_a_lab_frees_its_widgets():
    before = set(_instances)
    labs = [flow_lab(messages=20), group_lab(), config_lab(), state_space_lab(stop=1, resume=1)]
    assert set(_instances) - before
    for lab in labs:
        lab.close()
    left = set(_instances) - before
    assert not left, [type(_instances[key]).__name__ for key in left]


def test_a_lab_that_played_plays_again():
    lab = flow_lab(messages=60, stop=20, resume=10)
    heard = []
    lab.scene.observe(lambda change: heard.append(change.new), names="plays")
    assert lab.play() is lab.play()
    assert heard == [True, False, True]


@pytest.mark.parametrize(
    ("lab", "settings", "words"),
    [
        ("flow", {"messages": 1_000_000}, "asks for 1,000,000 messages; at most 20,000 are run"),
        ("flow", {"messages": 1e300}, "at most 20,000 are run"),
        ("group", {"messages": "A " * 100_000}, "messages has 200,000 entries; at most 10,000 are opened"),
        ("completion", {"moves": [["busy"]] * 50_000}, "moves has 50,000 entries"),
    ],
)
def test_token_that_asks_for_minutes_of_work_is_refused_before_it(lab, settings, words):
    token = Token(lab, settings).text()
    assert len(token) < 1_500
    for opened in (open_token, run_of_token):
        with pytest.raises(TokenError, match=words):
            opened(token)
