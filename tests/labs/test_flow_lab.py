"""The flow lab and the recorded lab without a browser: sliders, sentences and stored values."""

from __future__ import annotations

import re
from inspect import signature

import pytest
from sentences import ask

from qflow.labs import depth_chart, flow_lab, flow_run, flow_workload, recorded_lab, recorded_picture
from qflow.labs.experiments import FLOW
from qflow.labs.opened import _on_spans, agreement
from qflow.labs.scene import Scene
from qflow.labs.share import open_token
from qflow.labs.words import share, times
from qflow.trace import LogError, QueueSample


@pytest.fixture
def lab():
    return flow_lab(messages=300, stop=40, resume=20, capacity=10, limit=100)


@pytest.fixture(scope="module")
def recorded():
    return recorded_picture("slow-consumer")


def test_a_lab_shows_what_the_same_run_shows_without_widgets(lab):
    same = flow_run(messages=300, stop=40, resume=20, capacity=10, limit=100)
    assert lab.claims == same.claims
    assert lab.scene.pictures[0]["numbers"] == same.frames.pack()
    assert repr(lab) == repr(same) == "\n".join(same.claims)


def test_sliders_carry_the_product_s_names_and_the_rules():
    assert [knob.label for knob in FLOW.knobs[:2]] == ["qpid.flow_stop_count", "qpid.flow_resume_count"]
    named = set(signature(flow_workload).parameters) - {"arguments"}
    assert {knob.setting for knob in FLOW.knobs} == named
    for knob, slider in zip(FLOW.knobs, flow_lab(messages=10).sliders.values(), strict=True):
        assert slider.tooltip == knob.tooltip
        assert not slider.continuous_update


def test_whatever_goes_wrong_is_told_in_the_lab_and_not_as_a_traceback(lab, monkeypatch):
    def fails(*_, **__):
        raise ZeroDivisionError("a fault of ours")

    kept = lab.picture
    monkeypatch.setattr(lab, "_steps", fails)
    lab.sliders["stop"].value = 50
    assert "a fault of ours" in lab.scene.refusal
    assert lab.picture is kept


def test_a_slower_earlier_run_never_overwrites_a_later_one(lab):
    """Nor does the finished part of a run overwrite the complete run."""
    late, early = (flow_run(messages=number, stop=5, resume=3) for number in (20, 10))
    assert not lab.scene.show(early, 1, is_whole=False)
    assert lab.scene.show(early, 3, is_whole=False)
    assert not lab.scene.show(early, 2)
    assert lab.scene.show(early, 3)
    assert not lab.scene.show(early, 3)
    assert lab.show(late, 7)
    assert not lab.show(early, 6)
    assert lab.picture is late
    assert lab.scene.run == 7
    assert lab.scene.pictures[0]["numbers"] == late.frames.pack()


# A run that takes longer: its beginning first


@pytest.fixture
def drawn(lab, monkeypatch):
    """Record what is drawn of each run, as if every run took long."""
    monkeypatch.setattr("qflow.labs.slider_lab.WORTHWHILE", 0)
    seen = []
    show = lab.scene.show

    def noted(picture, run, *, is_whole=True):
        is_drawn = show(picture, run, is_whole=is_whole)
        if is_drawn:
            seen.append((run, is_whole, picture))
        return is_drawn

    monkeypatch.setattr(lab.scene, "show", noted)
    return seen


def test_a_longer_run_first_shows_the_instant_that_is_looked_at(lab, drawn):
    ask(lab, ask="look", time=200_000)
    lab.sliders["stop"].value = 60
    (first, is_whole, beginning), (second, is_whole_then, whole) = drawn
    assert (first, is_whole, second, is_whole_then) == (2, False, 2, True)
    index = beginning.frames.index_at(200_000)
    assert index == whole.frames.index_at(200_000)
    assert beginning.frames.at(index) == whole.frames.at(index)
    assert 200_000 < beginning.frames.topology.end < whole.frames.topology.end
    assert not beginning.claims, "what a run shows is said when it has ended"
    assert whole.claims == lab.claims
    assert lab.scene.is_whole


def test_a_late_instant_is_shown_with_the_whole_run(lab, drawn):
    ask(lab, ask="look", time=lab.picture.frames.topology.end + 10**9)
    lab.sliders["stop"].value = 60
    assert [(run, is_whole) for run, is_whole, _ in drawn] == [(2, True)]


def test_a_run_that_fails_after_its_beginning_was_drawn_leaves_the_last_whole_picture(
    lab, drawn, monkeypatch
):
    kept, plain = lab.picture, lab._steps

    def fails(**settings):
        for part in plain(**settings):
            yield part
            if part.time > 400_000:
                break
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(lab, "_steps", fails)
    ask(lab, ask="look", time=200_000)
    lab.sliders["stop"].value = 50
    assert [is_whole for _, is_whole, _ in drawn] == [False, True]
    assert drawn[-1][2] is kept is lab.picture
    assert "a fault of ours" in lab.scene.refusal


def test_a_declare_argument_is_a_slider_if_it_is_given_a_number():
    """CF-01, FC-08: it has the given value, moves, is in tokens, and applies to the map."""
    lab = flow_lab(messages=300, stop=0, resume=0, limit=0, **{"qpid.max_size": 30_000})
    assert "made it 24036 bytes large" in lab.claims[0]
    lab.sliders["qpid.max_size"].value = 0
    assert lab.claims[0] == "orders has no flow control."
    assert open_token(lab.token(0, 0)).sliders["qpid.max_size"].value == 0
    assert "none of the 4 settings" in lab.map(cells=2, messages=50).claims[0]
    with pytest.raises(TypeError, match="flow_lab has no setting 'max_size'; it has stop, resume, limit"):
        flow_lab(max_size=3)


def test_text_forms_hold_no_address(lab):
    bundle = lab._repr_mimebundle_()
    assert bundle["text/plain"] == "\n".join(lab.claims)
    assert repr(lab.scene) == f"Scene(run=1, frames={lab.picture.frames.count})"
    assert repr(Scene()) == "Scene(run=0, frames=0)"


def test_claims_count_what_the_events_say():
    picture = flow_run()
    kinds = [event.kind for event in picture.run.events]
    assert f"orders turned ON {times(kinds.count('flow_stopped'))};" in picture.claims[0]
    assert f"orders turned OFF {times(kinds.count('flow_resumed'))}, at 499 messages" in picture.claims[1]
    assert f"c1 accepted {kinds.count('message.accept')} messages." in picture.claims


def test_claims_of_a_queue_that_never_turned_on():
    never = flow_run(messages=50)
    deepest = max(never.frames.column("queue.orders.depth"))
    assert never.claims[0] == (
        f"orders never turned ON: at most {deepest} messages against a stop threshold of 900 messages."
    )
    assert "none of its transfers was ever held; it never had to wait." in never.claims[2]


def test_shares_are_never_rounded_to_all_or_nothing():
    assert share(((0, 999),), 1_000) == "more than 99 %"
    assert share(((0, 1_000),), 1_000) == "100 %"
    assert share(((0, 1),), 1_000) == "less than 1 %"


# The recorded lab


def test_agreement_tells_a_broker_that_differs(recorded):
    lying = [QueueSample(time, 0, 0, True, 40, 0, 0, 0) for time in range(0, 4_000_000, 50_000)]
    found = agreement(recorded.frames, "orders", lying)
    assert (found.polls, found.agreeing, found.really_turned_on) == (80, 0, 40)
    assert found.farthest > 4_000_000
    assert _on_spans(lying) == ((0, 3_950_000),)


@pytest.mark.parametrize("name", ["slow", "../workloads/slow-consumer"])
def test_a_recording_that_is_not_there_is_named(name):
    with pytest.raises(LogError, match=f"there is no recording '{name}'; there are .*slow-consumer"):
        recorded_lab(name)


# Charts


def test_the_chart_of_a_recording_has_the_real_broker_beside_the_engine(recorded):
    chart = depth_chart(recorded)
    (band,) = re.findall(r'class="b" d="([^"]*)" fill="url', chart.svg)
    assert band.count("M") == 13
    names = [trace.name for trace in chart.figure.data]
    assert names == ["flow control ON", "real broker: ON", "depth of orders", "real broker: depth"]
    assert repr(chart) == repr(recorded)


def test_thinning_keeps_every_extreme(recorded):
    depths = recorded.frames.column("queue.orders.depth")
    kept = depth_chart(recorded).figure.data[2]
    assert max(kept.y) == max(depths)
    assert len(kept.x) < 1_700
    assert list(kept.x) == sorted(kept.x)
    with pytest.raises(KeyError, match="no queue 'order' in this picture; there are orders"):
        depth_chart(recorded, "order")
