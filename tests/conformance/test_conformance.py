"""What a real broker did, step by step: every recording agrees, and a difference is reported as one."""

import json
import re
from pathlib import Path

import pytest
from commands import output_of, status_of
from recordings import SCENARIOS

from qflow.broker import BrokerOptions
from qflow.broker.errors import StartupError
from qflow.conformance import check_file, load_scenarios
from qflow.conformance.scenario import Scenario, ScenarioError, pack, unpack
from qflow.conformance.scenario_player import _EXPECT, _STEPS, QUEUE, Player, check, observe

FILES = sorted(SCENARIOS.glob("*.jsonl"))
TABLE = re.findall(
    r"^\| `?([\w-]+)(?:\.jsonl`)? \| (\d+) \| \d+ \|$", (SCENARIOS / "FORMAT.md").read_text(), re.M
)
COUNTS = {name: int(scenarios) for name, scenarios in TABLE}
ALL = COUNTS.pop("all")


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_recording_of_a_file_agrees(path):
    """Every scenario of the file agrees, in every step and at its end."""
    verdicts = list(check_file(path))
    assert [verdict.text() for verdict in verdicts if not verdict.agrees] == []
    assert path.stem in COUNTS, f"{path.name} is new: add its row, of {len(verdicts)} scenarios, to FORMAT.md"
    assert len(verdicts) == COUNTS[path.stem]


def test_all_files_are_here():
    """FORMAT.md's list of contents, and its sum."""
    missing = set(COUNTS) - {path.stem for path in FILES}
    assert not missing, f"recordings that FORMAT.md names are not in {SCENARIOS}: {sorted(missing)}"
    assert sum(COUNTS.values()) == ALL >= 659


HELD = {
    "DQ-02": "fc-release-no-change",
    "DQ-03": "lim-uncommitted-counts",
    "LP-11": "ri-acquired",
    "LP-13": "lv-ring",
    "LP-14": "ri-default-size",
    "FC-03": "fc-ring-exempt",
    "FC-13": "fc-count-7-5",
    "FC-14": "fc-count-7-5 fc-size-exact fc-big-message",
    "FC-15": "fc-equal",
    "FC-16": "fc-count-7-5 fc-size-exact fc-doc-combined-both",
    "FC-17": "fc-leave-accept fc-fanout-both-hold",
    "FC-18": "fc-release-no-change fc-browse-no-change",
    "FC-19": "fc-counts-cycles",
    "FC-20": "fc-leave-purge fc-leave-ttl fc-leave-move",
    "FC-21": "fc-delete fc-auto-delete fc-exclusive-close",
    "FC-22": "fc-reject-to-alternate",
    "FC-23": "fc-lvq",
    "FC-24": "fc-limit-overrun",
    "FC-25": "fc-count-7-5 fc-size-700-460 fc-combo-10-5-2000-1000",
    "FC-26": "fc-doc-900-500",
    "CM-06": "fc-sync fc-sync-partial",
    "CM-11": "fc-tx-accept tx-full-prefetch",
    "MG-06": "gr-emptied-recreated",
    "MG-12": "gr-simple",
    "MG-14": "gr-prefetch-n",
    "MG-17": "gr-browse",
    "MG-18": "gr-release-accept-order",
    "MG-20": "gr-ring-acquired",
    "MG-21": "gr-ttl",
    "MG-22": "gr-transaction-order",
    "MG-23": "gr-flow",
    "MG-25": "gr-interleaved",
    "CN-03": "cr-default-mode cr-zero",
    "CN-05": "cr-credit-bytes cr-credit-bytes-partial",
    "CN-06": "cr-credit-messages cr-credit-complete cr-window-messages",
    "CN-07": "cr-window-flush cr-credit-stop",
    "CN-08": "cr-small-for-other cr-too-large",
    "CN-10": "fc-doc-900-500",
    "CN-11": "fc-leave-auto gr-auto-accept",
    "CN-16": "re-reject-drop re-reject-alternate",
    "CN-22": "pr-delivery-1",
    "CN-25": "cr-short-credit-wakes",
    "CN-26": "cr-lost-wakeup",
    "CN-27": "re-cursor",
    "QT-02": "lv-limit",
    "QT-03": "lv-acquired-replaced lv-release",
    "ALT-09": "cap-two-queues",
    "IN-02": "gr-timestamp",
    "RF-04": "cr-mode-switch",
    "RF-14": "re-close-waiting cr-cancel-wakes",
    "RF-16": "cr-small-for-other",
    "RF-17": "gr-cart",
    "RF-25": "fc-tx-accept tx-publish-and-accept",
    "RF-27": "m2-headers-again-qpid m2-headers-again-plain m2-headers-other-key",
    "RF-32": "m2-auto-headers-unbind",
    "RF-49": "m4-fed-direct-two-origins-kept m4-fed-direct-lingering-kept m4-fed-topic-two-origins-kept "
    "m4-fed-fanout-lingering-kept m4-fed-direct-B-scope-ends-kept m4-fed-headers-two-origins-kept",
    "RF-50": "m4-fed-direct-U-unbound m4-fed-direct-U-last m4-fed-topic-U-last m4-fed-fanout-U-last "
    "m4-fed-headers-U-only-queue-deleted",
}
"""Rules that a recording holds step by step, so that no other test needs to say them again."""


@pytest.fixture(scope="module")
def recorded() -> dict[str, Scenario]:
    """Those written by hand, by their ids."""
    files = (SCENARIOS / f"{name}.jsonl" for name in ("hand", "edges", "edges3"))
    return {scenario.id: scenario for path in files for scenario in load_scenarios(path)}


@pytest.mark.parametrize("rule", HELD)
def test_a_rule_that_a_recording_holds(recorded, rule):
    for name in HELD[rule].split():
        assert check(recorded[name]).agrees


# Starting


STARTS = json.loads((SCENARIOS / "startup.json").read_text())
PREFIXES = (
    "[Broker] critical Broker start-up failed: invalid-argument: ",
    "[Broker] critical Unexpected error: ",
)


@pytest.mark.parametrize("start", STARTS, ids=[" ".join(start["options"]) or "none" for start in STARTS])
def test_start_options_are_taken_or_refused_as_by_the_real_broker(start):
    """FC-10, X-03, rules.md#broker-options: which options start a broker, and its words when they do not."""
    if start["starts"]:
        BrokerOptions.parse(start["options"])
        return
    with pytest.raises(StartupError) as raised:
        BrokerOptions.parse(start["options"])
    recorded = start["stderr"][0]
    said = {recorded.removeprefix(prefix) for prefix in PREFIXES if recorded.startswith(prefix)}
    assert said == {str(raised.value)}


# The command


@pytest.fixture
def scenario() -> dict:
    """A short recording: stop 2, a third message held, then consumed."""
    lines = (SCENARIOS / "hand.jsonl").read_text().splitlines()
    return next(found for found in map(json.loads, lines) if found["id"] == "fc-equal")


def written(folder: Path, *scenarios: dict) -> str:
    path = folder / "recording.jsonl"
    path.write_text("".join(json.dumps(scenario) + "\n" for scenario in scenarios))
    return str(path)


def test_the_command_counts_scenarios_that_agree(tmp_path, capsys, scenario):
    """Status 0 and nothing but the last line, which counts over all files."""
    file = written(tmp_path, scenario, {**scenario, "id": "again"})
    assert output_of(capsys, "conform", file, file) == "agree: 4 of 4 scenarios\n"


def tamper(scenario: dict, number: int, path: str, value: object) -> dict:
    """Return the scenario with one expectation changed; the step is counted from 1."""
    changed = json.loads(json.dumps(scenario))
    *parents, last = path.split(".")
    place = changed["steps"][number - 1]["expect"]
    for parent in parents:
        place = place[parent]
    place[last] = value
    return changed


def find_step(scenario: dict, key: str) -> int:
    """Return the number, from 1, of the first step that expects something under a key."""
    return next(n for n, step in enumerate(scenario["steps"], 1) if key in step["expect"])


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_tampered_number(tmp_path, capsys, scenario, as_json):
    """Told with scenario, step, expected and got; the others still count."""
    number = find_step(scenario, "held")
    real = scenario["steps"][number - 1]["expect"]["queues"]["q"]["depth"]
    bad = tamper(scenario, number, "queues.q.depth", real + 7)
    assert (
        status_of("conform", written(tmp_path, bad, {**scenario, "id": "good"}), *["--json"] * as_json) == 1
    )
    said = capsys.readouterr()
    lines, tally = said.out.splitlines(), said.err.strip() if as_json else ""
    assert (tally or lines.pop()) == "agree: 1 of 2 scenarios"
    if as_json:
        told, good = map(json.loads, lines)
        assert [told["id"], told["agrees"], good["id"], good["agrees"]] == ["fc-equal", False, "good", True]
        assert (told["steps"], good["steps"]) == (number - 1, len(scenario["steps"]))
        assert told["differences"] == [{"path": "queues.q.depth", "expected": real + 7, "got": real}]
        assert json.loads(told["step"])["op"] == scenario["steps"][number - 1]["op"]
    else:
        assert lines[0].startswith(f"fc-equal: differs at step {number}: ")
        assert scenario["steps"][number - 1]["op"] in lines[0]
        assert lines[1].split() == ["queues.q.depth", "expected", str(real + 7), "got", str(real)]
        assert len(lines) == 2


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("held", {"p": ["p-1"]}, "held.p"),
        ("got", {"c/s": ["p-9"]}, "got"),
        ("errors", {"p": ["not-found", "x"]}, "errors"),
        ("events", [["queueThresholdExceeded", "q", 1, 1]], "events"),
        ("done", {"p": 99}, "done.p"),
        ("groups", {"q": {"A": [1, ""]}}, "groups"),
    ],
)
def test_everything_expected_is_compared(scenario, key, value, path):
    """A changed expectation of any kind is noticed, at its step and under its path."""
    number = find_step(scenario, "held")
    changed = tamper(scenario, number, key, value)
    verdict = check(Scenario.from_json(changed))
    assert (verdict.agrees, verdict.steps) == (False, number - 1)
    assert path in [difference.path for difference in verdict.differences]


def test_what_is_left_out_of_an_expectation_is_compared(scenario):
    """FORMAT: absent means 0, false or empty; so taking "flow" away is a difference."""
    number = find_step(scenario, "held")
    changed = json.loads(json.dumps(scenario))
    del changed["steps"][number - 1]["expect"]["queues"]["q"]["flow"]
    verdict = check(Scenario.from_json(changed))
    assert [difference.path for difference in verdict.differences] == ["queues.q.flow"]


@pytest.mark.parametrize(
    ("answer", "wrong"), [("sent", ["x-1"]), ("acquired", ["x-1"]), ("result", ["error", "no"])]
)
def test_answers_are_compared(answer, wrong):
    """FORMAT: what an offer sent, what an acquire was granted, what a management method answered."""
    for found in load_scenarios(SCENARIOS / "hand.jsonl"):
        steps = json.loads(json.dumps(found.steps))
        number = next((n for n, step in enumerate(steps) if answer in step), None)
        if number is not None:
            break
    steps[number][answer] = wrong
    record = {"id": found.id, "broker": list(found.broker), "steps": steps, "final": found.final}
    verdict = check(Scenario.from_json(record))
    assert (verdict.agrees, verdict.steps) == (False, number)
    assert [difference.path.partition(".")[0] for difference in verdict.differences] == [answer]


def test_the_end_is_compared(scenario):
    """The final browse, too."""
    changed = {**scenario, "final": {"q": ["p-77"]}}
    verdict = check(Scenario.from_json(changed))
    assert (verdict.agrees, verdict.step) == (False, "final")
    assert verdict.differences[0].expected == ["p-77"]


def test_an_unknown_step(tmp_path, capsys, scenario):
    """It counts as not agreeing, and is named as not built."""
    steps = [*scenario["steps"][:2], {"op": "levitate", "queue": "q", "expect": {}}]
    assert status_of("conform", written(tmp_path, {**scenario, "steps": steps})) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert last == "agree: 0 of 1 scenarios"
    assert first.startswith("fc-equal: not agreeing at step 3, not built: ")
    assert "'levitate'" in first


def test_two_scenarios_with_one_id_are_told_apart(tmp_path, capsys, scenario):
    """Each is played, and its verdict names its line."""
    bad = {**scenario, "final": {"q": ["p-77"]}}
    assert status_of("conform", written(tmp_path, scenario, bad)) == 1
    assert capsys.readouterr().out.startswith("fc-equal (line 2): differs at step")
    assert status_of("conform", written(tmp_path, scenario, scenario), "--json") == 0
    said = capsys.readouterr()
    ids = [json.loads(line)["id"] for line in said.out.splitlines()]
    assert ids == ["fc-equal (line 1)", "fc-equal (line 2)"]
    assert said.err == "agree: 2 of 2 scenarios\n"


# FORMAT.md, word by word


def section_of_format(heading: str) -> str:
    text = (SCENARIOS / "FORMAT.md").read_text()
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def heads(section: str) -> set[str]:
    """Return what is in backticks before a dash, at the beginning of an item or of a sentence."""
    found = re.findall(r"(?:^ *\* |[.;] )((?:`\w+`, )*`\w+`) - ", section, re.M)
    return {word for head in found for word in re.findall(r"`(\w+)`", head)}


def test_every_step_of_the_format_is_built():
    """Each op that FORMAT.md documents can be played, and no other."""
    section = section_of_format("Steps")
    assert {"declare_queue", "purge_queue", "offer", "fetch", "disconnect", "qmf"} <= heads(section)
    assert heads(section) <= set(_STEPS)
    assert set(_STEPS) <= set(re.findall(r"`(\w+)`", section))


def test_every_expectation_of_the_format_is_compared():
    assert heads(section_of_format("expect")) == {*_EXPECT, *QUEUE}


def performed(*steps: dict) -> Player:
    """Perform steps on a new broker, each with nothing expected of it."""
    player = Player()
    for step in steps:
        player.play({"expect": {}, **step})
    return player


def test_words_that_no_recording_here_uses():
    """FORMAT documents them; a recording from elsewhere may use them."""
    queue = {"op": "declare_queue", "queue": "q", "durable": True}
    exchange = {"op": "declare_exchange", "exchange": "e", "type": "fanout"}
    sent = {"op": "transfer", "session": "p", "size": 60, "key": "q"}
    player = performed(
        queue,
        {**exchange, "args": {"qpid.msg_sequence": 1}},
        {**exchange, "passive": True},
        {"op": "bind", "exchange": "e", "queue": "q", "key": ""},
        {**sent, "label": "m-1", "exchange": "e"},
        {"op": "subscribe", "session": "c", "queue": "q", "sub": "s", "args": {"x-apache-selector": "a = 1"}},
        {"op": "flow", "session": "c", "sub": "s", "bytes": "inf", "messages": "inf"},
        {**sent, "label": "m-2", "headers": {"a": 1}},
        {"op": "unbind", "exchange": "e", "queue": "q", "key": "", "args": {}},
        {**sent, "label": "m-3", "exchange": "e"},
    )
    first = player.broker.queue("q").store.find(1)
    assert first.transfer.annotations == {"qpid.msg_sequence": 1}
    assert player.got == {"c/s": ["m-2"]}
    assert player.broker.queue("q").statistics().msgTotalEnqueues == 2


def test_absent_fields_are_empty():
    """FORMAT: absent fields mean 0, false or empty, everywhere."""
    player = performed(
        {"op": "declare_queue", "queue": "q"},
        {"op": "bind", "exchange": "amq.fanout", "queue": "q"},
        {"op": "subscribe", "session": "c", "queue": "q", "sub": "s", "messages": 1, "bytes": "inf"},
        {"op": "transfer", "session": "p", "label": "m-1", "size": 60, "exchange": "amq.fanout"},
        {"op": "complete", "session": "c"},
        {"op": "unbind", "exchange": "amq.fanout", "queue": "q"},
        {"op": "subscribe", "session": "d", "sub": "s"},
        {"op": "bind", "session": "e", "queue": "q"},
    )
    assert player.got["c/s"] == ["m-1"]
    assert player.broker.queue("q").binding_count == 1
    assert [player.clients[name].session.error.code for name in "de"] == [531, 542]


@pytest.mark.parametrize("condition", ["if_unused", "if_empty"])
def test_a_queue_is_deleted_only_if(condition):
    player = performed(
        {"op": "declare_queue", "queue": "q"},
        {"op": "transfer", "session": "p", "label": "m-1", "size": 60, "key": "q"},
        {"op": "subscribe", "session": "c", "queue": "q", "sub": "s"},
        {"op": "delete_queue", "session": "d", "queue": "q", condition: True},
    )
    assert player.clients["d"].session.error.name == "precondition-failed"


def test_a_queue_without_a_name(tmp_path, capsys, scenario):
    """CF-06: it can be declared, but not read: the end is compared without it, and there is no traceback."""
    expect = {"queues": {"": {"binds": 1}}}
    nameless = {"id": "n", "steps": [{"op": "declare_queue", "queue": "", "expect": expect}], "final": {}}
    assert status_of("conform", written(tmp_path, nameless)) == 0


def test_an_error_of_the_connection_is_called_so():
    """FORMAT, QT-16, LP-06: the code is the exception's name, or "connection", for all its sessions."""
    player = performed(
        {"op": "session", "session": "a", "connection": "k"},
        {"op": "session", "session": "b", "connection": "k"},
        {"op": "declare_queue", "session": "a", "queue": "q", "args": {"qpid.filter": "n ="}},
        {"op": "delete_queue", "session": "d", "queue": "nosuch"},
    )
    codes = {name: code for name, (code, _) in observe(player)["errors"].items()}
    assert codes == {"a": "connection", "b": "connection", "d": "not-found"}


def test_a_dropped_connection_ends_all_its_sessions_before_anything_is_delivered():
    """FORMAT: disconnect drops the TCP connection; what one of its sessions had, no other of them gets."""
    subscribed = {"op": "subscribe", "queue": "q", "sub": "s", "bytes": "inf", "messages": "inf"}
    player = performed(
        {"op": "declare_queue", "queue": "q"},
        {"op": "session", "session": "a", "connection": "k"},
        {"op": "session", "session": "b", "connection": "k"},
        {**subscribed, "session": "a"},
        {"op": "transfer", "session": "p", "label": "m-1..3", "size": 60, "key": "q"},
        {**subscribed, "session": "b"},
        {**subscribed, "session": "c"},
        {"op": "disconnect", "session": "a"},
    )
    assert [player.clients[name].session.is_attached for name in "abcp"] == [False, False, True, True]
    assert player.got == {"a/s": ["m-1", "m-2", "m-3"], "b/s": [], "c/s": ["m-1*", "m-2*", "m-3*"]}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"colour": "red"}, "parameter 'colour' of op 'transfer'"),
        ({"expect": {"mood": 0}}, "expectation 'mood'"),
        ({"expect": {"queues": {"q": {"weight": 0}}}}, "expectation 'weight' of a queue"),
        ({"expect": []}, "an expectation that is a list"),
        ({"expect": {"queues": [1]}}, "expected queues that are a list"),
        ({"size": 1}, "op 'transfer' with these values: content_size"),
        ({"op": ["transfer"]}, "op ['transfer']; known are accept, "),
        ({"op": "flow"}, "op 'flow' without 'sub', parameter 'label' of op 'flow', param"),
        ({"op": "set_flow_mode", "sub": "s", "flow_mode": "tidal"}, "'tidal'; known are credit, window"),
        ({"op": "qmf", "method": "getPowers"}, "management method 'getPowers'; known are purge, "),
        ({"op": "qmf", "method": "purge"}, "management method 'purge' without 'object'"),
        ({"op": "qmf", "method": "query", "args": {"types": 1}}, "argument 'types' of management method"),
    ],
)
def test_what_is_not_built_is_said(scenario, change, says):
    """A word that is unknown is never passed over, not even one whose value is 0."""
    step = {"op": "transfer", "session": "p", "label": "m-1", "size": 60, "expect": {}, **change}
    verdict = check(Scenario.from_json({**scenario, "steps": [step]}))
    assert (verdict.agrees, verdict.steps) == (False, 0)
    assert says in verdict.not_built


def test_what_is_not_built_of_a_scenario_is_said(scenario):
    verdict = check(Scenario.from_json({**scenario, "cluster": ["a", "b"]}))
    assert (verdict.agrees, verdict.not_built) == (False, "'cluster' of a scenario")


def test_options_that_do_not_start(tmp_path, capsys, scenario):
    """FC-10: the scenario does not agree; its verdict says what the broker said."""
    path = written(tmp_path, {**scenario, "broker": ["--default-flow-stop-threshold", "60"]})
    assert "flowStopRatio=60 flowResumeRatio=70" in output_of(capsys, "conform", path, status=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{not json\n", ["line 1", "not JSON"]),
        ('{"id": "x"}\n', ["line 1", "list of steps"]),
        ('{"id": "x", "steps": [{"op": "transfer"}]}\n', ["line 1", "step 1", "expect"]),
        ("[1, 2]\n", ["line 1", "list of steps"]),
        ('\n\n{"steps": 3}\n', ["line 3", "list of steps"]),
        ("\n", ["no scenario in it"]),
        ("[" * 100_000, ["line 1", "nested too deeply"]),
        ('{"steps": [], "broker": "--auth no"}\n', ["line 1", "broker must be a list of options"]),
        ('{"steps": [], "final": [1]}\n', ["line 1", "final must be an object"]),
        (b"\xff\xfe\x00", ["cannot be read"]),
        (None, ["cannot be read"]),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, list) else "",
)
def test_files_that_cannot_be_read(tmp_path, capsys, text, words):
    """Status 2 and one sentence on standard error, which names the file."""
    path = tmp_path / "bad.jsonl"
    if isinstance(text, bytes):
        path.write_bytes(text)
    elif text is not None:
        path.write_text(text)
    assert status_of("conform", path) == 2
    said = capsys.readouterr().err
    assert said.startswith("qflow: ")
    assert said.count("\n") == 1
    for word in [str(path), *words]:
        assert word in said
    with pytest.raises(ScenarioError):
        list(load_scenarios(path))


@pytest.mark.parametrize(
    ("labels", "packed"),
    [
        ([], []),
        (["p1-3"], ["p1-3"]),
        (["p1-3", "p1-4", "p1-5"], ["p1-3..5"]),
        (["p1-3*", "p1-4*"], ["p1-3..4*"]),
        (["p1-3", "p1-4*"], ["p1-3", "p1-4*"]),
        (["p1-4", "p1-3"], ["p1-4", "p1-3"]),
        (["a-1", "b-2"], ["a-1", "b-2"]),
        (["p1-9", "p1-10", "q", "p1-11"], ["p1-9..10", "q", "p1-11"]),
    ],
)
def test_labels_are_packed_into_runs(labels, packed):
    """FORMAT: runs of consecutive labels, in order, with the same star."""
    assert pack(labels) == packed
    assert unpack(packed) == labels
