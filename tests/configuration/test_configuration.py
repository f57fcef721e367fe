"""Configuration as people type it: qpid-config options, addresses, JSON; what they come to."""

from __future__ import annotations

import argparse
import ast
import json
import optparse
import re
import subprocess
import sys
from dataclasses import asdict

import pytest
from commands import room_command
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from qflow.broker import Broker, BrokerOptions
from qflow.broker.errors import AmqpException
from qflow.configuration import cli
from qflow.configuration.declaration import ConfigurationError, Declaration, is_understood, suggestion
from qflow.configuration.explanation import SettingsExplanation, explain, report
from qflow.configuration.notations import (
    address_string,
    qpid_config_line,
    read_address,
    read_line,
    read_value,
)
from qflow.configuration.qpid_config import OPTIONS, integer

DEFAULT_STOP, DEFAULT_RESUME = 83_886_080, 73_400_320


def run(
    capsys: pytest.CaptureFixture[str], *words: str, what: tuple[str, ...] = ("add", "queue")
) -> tuple[int, str, str]:
    """Run ``qflow config …``; return its status, output and complaints."""
    try:
        status = room_command(cli, "config", *what, *words)
    except SystemExit as exit:
        status = exit.code
    except ConfigurationError as error:
        return 2, "", str(error)
    said = capsys.readouterr()
    return status, said.out, said.err


def data_of(capsys: pytest.CaptureFixture[str], *words: str, **what: tuple[str, ...]) -> dict[str, object]:
    """Run ``qflow config … --json``; return what it prints."""
    status, out, _ = run(capsys, *words, "--json", **what)
    assert status == 0
    return json.loads(out)


BROKERS = re.compile(r"--default-\S+ ?")


def explained(line: str, **options: object) -> SettingsExplanation:
    """Explain a queue q with the options of a line, of which those of qpidd are the broker's."""
    broker = BrokerOptions.parse(map(str.strip, BROKERS.findall(line))) if BROKERS.search(line) else None
    return explain(read_line(f"q {BROKERS.sub('', line)}"), broker or BrokerOptions(**options))


def said(explanation: SettingsExplanation) -> set[str]:
    """Return the lines of the report, without the spaces that make columns."""
    return {" ".join(line.split()) for line in report(explanation).splitlines()}


def levels(explanation: SettingsExplanation) -> dict[str, int]:
    return {level.name: level.value for level in explanation.levels}


def rules(explanation: SettingsExplanation, kind: str = "") -> list[tuple[str, ...]]:
    return [remark.rules for remark in explanation.remarks if kind in remark.kind]


# rules.md#qpid-config-options: each option, and the argument it sends

SENT = [
    ("--max-queue-size 0", {"qpid.max_size": 0}),
    ("--max-queue-count=0", {"qpid.max_count": 0}),
    ("--max-queue-size=10000 --max-queue-count 100", {"qpid.max_size": 10_000, "qpid.max_count": 100}),
    ("--limit-policy none", {}),
    ("--limit-policy reject", {"qpid.policy_type": "reject"}),
    ("--limit-policy ring", {"qpid.policy_type": "ring"}),
    ("--limit-policy ring-strict", {}),
    ("--lvq-key stock", {"qpid.last_value_queue_key": "stock"}),
    ("--flow-stop-size 9 --flow-resume-size 8", {"qpid.flow_stop_size": 9, "qpid.flow_resume_size": 8}),
    ("--group-header G --shared-groups", {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}),
    ("--argument a=5 --argument b=x --argument c", {"a": 5, "b": "x", "c": None}),
    ("--argument a=b=c --argument d= --argument e=-7", {"a": "b=c", "d": "", "e": -7}),
    ("--argument qpid.max_count=5 --max-queue-count=6", {"qpid.max_count": 6}),
    ("--replicate all", {"qpid.replicate": "all"}),
    ("--replicate none", {"qpid.replicate": "none"}),
    ("--replicate configuration", {"qpid.replicate": "configuration"}),
    (
        "--durable --file-count 8 --file-size 24 --efp-partition-num 1 --efp-pool-file-size 2048 "
        "--wcache-page-size 32 --wcache-num-pages 16",
        {
            "qpid.file_count": 8,
            "qpid.file_size": 24,
            "qpid.efp_partition_num": 1,
            "qpid.efp_pool_file_size": 2048,
            "qpid.wcache-page-size": 32,
            "qpid.wcache-num-pages": 16,
        },
    ),
    ("--file-count 8 --wcache-num-pages 16", {}),
    ("--durable --file-count 0", {}),
    ("--lvq-key '' --group-header ''", {}),
    (
        "--flow-stop-count=0x10 --flow-resume-count=010",
        {"qpid.flow_stop_count": 16, "qpid.flow_resume_count": 8},
    ),
    ("--max-queue-c 5", {"qpid.max_count": 5}),
]


@pytest.mark.parametrize(("options", "arguments"), SENT, ids=[options for options, _ in SENT])
def test_what_each_option_sends(options, arguments):
    """qpid-config options."""
    assert read_line(f"qpid-config add queue test01 {options}").arguments == arguments


@pytest.mark.parametrize(
    "declaration",
    [
        Declaration("q", {"k" * 256: "x"}),
        Declaration("q\ud800", {}),
        Declaration("q", {"x": "\ud800"}),
        Declaration("q", {}, alternate_exchange="\ud800"),
    ],
)
def test_what_no_client_can_send_is_said_so(declaration):
    """CF-04: the client's library refuses it; no broker is asked."""
    with pytest.raises(ConfigurationError, match="no client can send this: .*(255 bytes|UTF-8|surrogates)"):
        explain(declaration)


@pytest.mark.parametrize("start", ["", "add queue ", "qpid-config add queue ", "qflow config add queue "])
def test_the_start_of_a_line_may_be_left_out(start):
    """A learner types what the tool takes, from whichever word on."""
    assert read_line(f"{start}q --max-queue-count 5") == Declaration("q", {"qpid.max_count": 5})


def test_properties_are_no_declare_arguments():
    """qpid-config options, CF-07: durable and alternate-exchange are properties, and so is auto-delete."""
    declaration = read_line("q --durable --alternate-exchange alt --argument auto-delete=1")
    assert declaration == Declaration("q", {}, durable=True, auto_delete=True, alternate_exchange="alt")
    assert declaration.properties() == {"durable": 1, "auto-delete": 1, "alternate-exchange": "alt"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["q", "--flow-stop-count=abc"], "argument --flow-stop-count: invalid integer value: 'abc'"),
        (["q", "--max-queue-size", "10K"], "argument --max-queue-size: invalid integer value: '10K'"),
        (["q", "--max-queue-count=1.5"], "invalid integer value: '1.5'"),
        (["q", "--limit-policy", "RING"], "argument --limit-policy: invalid choice: 'RING'"),
        (["q", "--replicate", "some"], "Invalid replication level 'some', should be one of: none, config"),
        (["q", "--flow-stop=5"], "ambiguous option: --flow-stop=5 could match --flow-stop-size, --flow-s"),
        (["q", "--lvq-key"], "argument --lvq-key: expected one argument"),
        (["q", "--fast"], "unrecognized arguments: --fast"),
        ([], "the following arguments are required: NAME"),
        ([""], "a queue needs a name"),
        (["é" * 128], "a queue's name must be at most 255 bytes; got 256"),
        (["q", "--declare", "[1]"], "declare arguments must be a JSON map; got a list"),
        (["q", "--declare", "{"], "declare arguments must be a JSON map; got other text"),
        (["q", "--argument", "auto-delete=maybe"], "invalid conversion: Cannot convert maybe to bool"),
    ],
)
def test_usage_errors_of_qpid_config_options(capsys, words, complaint):
    """qpid-config options, a usage error; CF-06 for names that no client can give; the same in a lab."""
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert complaint in err
    if "--declare" not in words:
        with pytest.raises(ConfigurationError) as raised:
            read_line(words)
        assert complaint in str(raised.value)


def test_a_line_that_is_no_line():
    with pytest.raises(ConfigurationError, match="cannot be split into words: No closing quotation"):
        read_line("q --lvq-key='")


OPTPARSE = optparse.OptionParser()
OPTPARSE.add_option("--n", type="int")
OPTPARSE.error = lambda message: (_ for _ in ()).throw(ValueError(message))


@given(st.one_of(st.from_regex(r"[+-]?0?[xXbB]?[0-9a-f]{1,4}", fullmatch=True), st.integers().map(str)))
def test_integers_are_read_as_optparse_does(text):
    """qpid-config options: the tool's options are optparse's, which knows 0x, 0b and octal."""
    try:
        expected = OPTPARSE.parse_args([f"--n={text}"])[0].n
    except ValueError:
        with pytest.raises(argparse.ArgumentTypeError):
            integer(text)
    else:
        assert integer(text) == expected


# What the tool does without a word


@pytest.mark.parametrize(
    ("policy", "cited"),
    [
        ("--limit-policy ring-strict", ("X-26", "LP-04")),
        ("--argument qpid.policy_type=RING", ("LP-04", "X-25")),
        ("--argument qpid.policy_type=ring_strict", ("LP-04", "X-25")),
        ("--argument qpid.policy_type=flow_to_disk", ("LP-04", "X-25")),
    ],
)
def test_policies_that_come_to_reject(policy, cited):
    """LP-04, X-26 (nothing is sent), X-25, X-11 (accepted): treated as reject, flow control included."""
    explanation = explained(f"--max-queue-count=10 {policy}")
    assert rules(explanation, "warning") == [cited]
    assert levels(explanation)["stop_count"] == 8
    assert "when full: the message is refused" in report(explanation)


def test_every_key_of_the_rules_is_understood():
    """CF-01: every key of rules.md#declare-arguments is understood; a hyphen makes another key."""
    assert all(is_understood(option.key) for option in OPTIONS)
    assert all(
        map(is_understood, ("qpid.last_value_queue", "qpid.fairshare-0", "x-qpid-priorities", "no-local"))
    )
    assert not any(map(is_understood, ("qpid.max-count", "", "qpid.flow_stop", "x-match")))
    assert suggestion("qpid.flow-stop-count") == "qpid.flow_stop_count"


# Effective thresholds, and the rule that set each


@pytest.mark.parametrize(
    ("options", "rules_of_hint"),
    [
        ("--flow-stop-count=5 --max-queue-count=100", [("FC-07",)]),
        ("--flow-stop-size=1000", [("FC-07",)]),
        ("--flow-stop-size=209715200", [("FC-06",)]),
        ("--flow-resume-count=90 --max-queue-count=100", [("FC-05", "FC-07")]),
        ("--flow-stop-count=10 --flow-resume-count=11", []),
        ("--flow-stop-count=101 --max-queue-count=100", []),
        ("--max-queue-count=-1", []),
        ("--flow-stop-count=5 --flow-resume-count=6 --flow-stop-size=9", [("FC-07",)]),
    ],
)
def test_why_it_was_refused(options, rules_of_hint):
    """FC-07, FC-06: a value not typed took part; where all were typed, the broker's words suffice."""
    assert rules(explained(options), "hint") == rules_of_hint


RATIOS = "--default-flow-stop-threshold={0} --default-flow-resume-threshold={1}".format
NO_COUNT = "no default: the queue has no limit in messages to take"
NO_SIZE = "no default: the queue has no limit in bytes to take"
NEVER = "this unit never stops a producer"
LIMIT = "the broker's default-queue-limit"
EFFECTIVE = [
    ("--max-queue-count=7", "stop_count 6 messages 80 % of qpid.max_count=7, rounded half up [FC-02.4]"),
    ("--max-queue-size=99", "resume_size 69 bytes 70 % of qpid.max_size=99, cut off [FC-02.5]"),
    (
        "--max-queue-count=1",
        "resume_count 1 messages 70 % of qpid.max_count=1, cut off; 0 means: as the stop [FC-02.5, FC-05.2]",
    ),
    (
        f"--max-queue-count=2950001 {RATIOS(97, 73)}",
        "stop_count 2861501 messages 97 % of qpid.max_count=2950001, rounded half up [FC-02.4]",
    ),
    ("--flow-stop-count=9", "stop_count 9 messages given as qpid.flow_stop_count [FC-02.6]"),
    (
        "--flow-stop-count=9",
        f"resume_count 9 messages {NO_COUNT} 70 % of; 0 means: as the stop [FC-02.5, FC-05.2]",
    ),
    (
        "--flow-stop-count=9 --flow-resume-count=0",
        "resume_count 9 messages given as qpid.flow_resume_count; 0 means: as the stop [FC-02.6, FC-05.2]",
    ),
    (
        "",
        f"stop_size {DEFAULT_STOP} bytes 80 % of {LIMIT}=104857600, as no qpid.max_size is given, "
        "rounded half up [LP-01, FC-02.4]",
    ),
    ("", f"stop_count 0 messages {NO_COUNT} 80 % of; {NEVER} [FC-02.4, FC-08]"),
    (
        "--max-queue-size=0 --flow-stop-count=9",
        f"stop_size 0 bytes {NO_SIZE} 80 % of; {NEVER} [FC-02.4, FC-08]",
    ),
    (
        "--flow-stop-count=9 --default-queue-limit=0",
        f"stop_size 0 bytes {NO_SIZE} 80 % of; {NEVER} [FC-02.4, FC-08]",
    ),
    (
        f"--max-queue-count=100 --flow-stop-count=9 {RATIOS(0, 0)}",
        "resume_count 9 messages no default: the broker's default-flow-resume-threshold is 0; "
        "0 means: as the stop [FC-10, FC-02.5, FC-05.2]",
    ),
    (
        "--max-queue-count=100 --flow-stop-count=0",
        "resume_count 70 messages 70 % of qpid.max_count=100, cut off; this unit cannot stop, yet flow "
        "control does not end before it is below 70 [FC-02.5, FC-09]",
    ),
    ("--flow-stop-count=0", f"stop_count 0 messages given as qpid.flow_stop_count; {NEVER} [FC-02.6, FC-08]"),
    (
        f"--max-queue-count=10 --max-queue-size=0 {RATIOS(1, 1)}",
        f"stop_count 0 messages 1 % of qpid.max_count=10, rounded half up; {NEVER} [FC-02.4, FC-08]",
    ),
    ("--max-queue-count=9", "max_count 9 messages given [LP-01]"),
    ("", "max_count 0 messages no limit in messages: there is no default for it [LP-01]"),
    ("", f"max_size 104857600 bytes {LIMIT}, as no qpid.max_size is given [LP-01]"),
    ("--max-queue-size=0", "max_size 0 bytes given as 0: no limit in bytes [LP-01]"),
    (
        "--default-queue-limit=0",
        "max_size 0 bytes no limit in bytes: none is given, and default-queue-limit is 0 [LP-01]",
    ),
    (
        "--max-queue-count=1000 --flow-stop-count=900 --flow-resume-count=500 --max-queue-size=0",
        "Producers are held above 900 messages, and resume below 500 messages. [FC-14, FC-16]",
    ),
    (
        "--max-queue-count=100 --flow-stop-count=0",
        f"Producers are held above {DEFAULT_STOP} bytes, and resume below 70 messages and "
        f"{DEFAULT_RESUME} bytes. [FC-14, FC-16]",
    ),
    *(
        (off, "No flow control: neither unit has a stop threshold. [FC-02.7, FC-08]")
        for off in ("--flow-stop-count=0 --flow-stop-size=0", f"--max-queue-count=10 {RATIOS(0, 0)}")
    ),
    (
        "--limit-policy=ring",
        "No flow control: a ring queue never has any, whatever thresholds it is given. [FC-03]",
    ),
]


@pytest.mark.parametrize(("options", "line"), EFFECTIVE)
def test_each_value_says_what_set_it(options, line):
    """FC-02 … FC-05.2, FC-08, FC-09, FC-10, FC-14, FC-16, FC-26, LP-01: value, plain words, rule."""
    assert line in said(explained(options))


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ("--file-count=8", "warning", "--file-count is for durable queues: qpid-config does not send it"),
        ("--durable --file-size=0", "warning", "--file-size is 0: qpid-config does not send it"),
        ("--lvq-key=", "warning", "--lvq-key is empty: qpid-config does not send it"),
        ("--start-replica=host", "note", "--start-replica calls the HA module of the broker, which this"),
        ("--replicate=all", "note", "qpid.replicate is for a store or the HA module"),
        ("--argument qpid.max-count=5", "warning", "(did you mean qpid.max_count?)"),
        ("--argument x-mine=5", "warning", "x-mine means nothing to the broker, which accepts it in silence"),
        ("--argument qpid.alert_repeat_gap=5", "warning", "qpid.alert_repeat_gap is read and never used"),
        ("--argument x-qpid-maximum-message-count=5", "warning", "is an alert threshold, not a limit"),
        ("--argument qpid.lifetime-policy=never", "warning", "'never' is no lifetime policy"),
        ("--argument qpid.policy_type=self-destruct", "note", "does not exempt from flow control"),
        ("--argument qpid.policy_type=self-destruct --lvq-key=k", "warning", "key is ignored in silence"),
        ("--group-header=G --shared-groups --argument qpid.group_timestamp=1", "warning", "and never used"),
        ("--durable", "note", "this model keeps everything in memory"),
        ("--max-queue-count=1000 --flow-stop-count=900", "hint", "at most 100: 900 + 100 = 1000"),
        ("--flow-resume-count=10", "warning", "[FC-02.2]"),
        ("--flow-resume-size=10 --limit-policy=ring", "note", "[X-24, LP-10]"),
        ("--limit-policy=ring --flow-stop-count=10 --flow-resume-count=11", "warning", "[FC-03]"),
        ("--max-queue-count=100 --flow-stop-count=0", "warning", "[FC-09]"),
        ("--max-queue-count=100 --flow-stop-count=0", "note", "[FC-08]"),
        ("--flow-stop-size=0 --max-queue-count=10", "note", "[FC-08]"),
        ("--max-queue-count=10", "hint", "[CAP-11]"),
        ("--max-queue-count=100 --flow-stop-count=100", "warning", "[FC-14, LP-02]"),
        ("--max-queue-size=100 --flow-stop-size=100", "warning", "[FC-14, LP-02]"),
        ("--durable --argument qpid.policy_type=self-destruct", "warning", "[LP-15]"),
        ("--durable --argument qpid.lifetime-policy=delete-on-close", "warning", "[RF-19]"),
        ("--durable --argument qpid.lifetime-policy=delete-if-unused-and-empty", "warning", "[RF-19]"),
    ],
)
def test_what_is_worth_knowing(options, kind, words):
    """What the broker or the tool does in silence, and what helps: its words, or its rules.

    CAP-11, CF-01, CF-02, FC-02.2, FC-03, FC-08, FC-09, IN-01, IN-02, LP-16, LP-17, QT-08, X-24.
    """
    assert any(words in line for line in said(explained(options)) if line.startswith(f"{kind}: "))


@pytest.mark.parametrize(
    ("options", "cited"),
    [
        ("", []),
        ("--limit-policy=ring --max-queue-count=9", [("X-24", "LP-10")]),
        ("--max-queue-count=9 --flow-stop-count=0", [("FC-09",), ("FC-08",)]),
        ("--max-queue-count=9 --flow-stop-count=9", [("FC-14", "LP-02")]),
        ("--flow-stop-count=0 --flow-stop-size=0", []),
    ],
)
def test_where_there_is_no_hint(options, cited):
    """CAP-11, FC-08: a plain queue needs none, nor one whose limit in messages is not exceeded by it."""
    assert rules(explained(options)) == cited


# One implementation


FLOW = st.one_of(st.none(), st.integers(0, 200))


@settings(max_examples=100)
@given(*[FLOW] * 6, st.integers(0, 100), st.integers(0, 100), st.booleans())
def test_the_explanation_is_the_engine(
    stop_count, resume_count, stop_size, resume_size, count, size, one, two, ring
):
    """FC-02 … FC-09: what is said is what the engine's queue has, or its refusal, for any numbers."""
    given_ = {
        "qpid.flow_stop_count": stop_count,
        "qpid.flow_resume_count": resume_count,
        "qpid.flow_stop_size": stop_size,
        "qpid.flow_resume_size": resume_size,
        "qpid.max_count": count,
        "qpid.max_size": size,
        "qpid.policy_type": "ring" if ring else None,
    }
    arguments = {key: value for key, value in given_.items() if value is not None}
    options = BrokerOptions(
        default_flow_stop_threshold=max(one, two), default_flow_resume_threshold=min(one, two)
    )
    explanation = explain(Declaration("q", arguments), options)
    broker = Broker(options)
    session = broker.session("s")
    try:
        session.queue_declare("q", arguments)
    except AmqpException as error:
        assert str(error) == explanation.refusal.shown
        return
    assert explanation.refusal is None
    limit = broker.queue("q").flow_limit
    if limit is None:
        assert explanation.flow.startswith("No flow control")
    else:
        in_force = {name: getattr(limit.thresholds, name) for name in levels(explanation)}
        assert len(in_force) == 4 and levels(explanation) == in_force


# Alerts


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ("--max-queue-count=10", {"alert_count_up": 8, "alert_count_down": 4}),
        ("--max-queue-count=10 --default-event-threshold-ratio=0", {}),
        ("--max-queue-count=10 --argument qpid.alert_count=0", {}),
    ],
)
def test_alert_thresholds_follow_declared_limits(options, expected):
    """QT-11, QT-12, IN-10: only declared limits count; down is half unless a fitting one is given."""
    explanation = explained(options)
    assert {alert.name: alert.value for alert in explanation.alerts} == expected
    assert ("none [QT-11]" in said(explanation)) == (not expected)


def test_why_the_alerts_are_what_they_are():
    """QT-11, QT-12, QT-13, IN-10."""
    explanation = explained(
        "--max-queue-size=8589934592 --argument qpid.alert_count=9 --argument qpid.alert_count_down=9"
    )
    assert [(alert.why, alert.rules) for alert in explanation.alerts] == [
        ("given; an event at 9 messages or more", ("QT-11",)),
        ("half of that, cut off (9 was given, which is not below 9); an event at 4 or less", ("QT-12",)),
        (
            "80 % of qpid.max_size=8589934592, cut off, and to 32 bits; an event at 2576980377 bytes or more",
            ("QT-11", "IN-10"),
        ),
        ("half of that, cut off; an event at 1288490188 or less", ("QT-12",)),
    ]


# Refusals

CONVERT = "invalid conversion: Cannot convert "
ARGUMENT = "invalid-argument: "
REFUSED = [
    (
        "--flow-stop-count=5 --max-queue-count=100",
        ARGUMENT + 'Queue "q": qpid.flow_resume_count=70 must be less or equal to qpid.flow_stop_count=5',
    ),
    ("--argument qpid.flow_stop_count", CONVERT + "from void to uint32"),
    ("--flow-stop-count=4294967296", CONVERT + "from int64 to uint32"),
    ("--max-queue-size=-1", CONVERT + "from int64 to uint64"),
    (
        "--argument qpid.policy_type=5",
        "invalid conversion: Variant is not a string; use asString() if conversion is required.",
    ),
    ("--group-header=G --argument qpid.shared_msg_group=yes", CONVERT + "yes to bool"),
    (
        "--group-header=G",
        ARGUMENT + "Only shared groups are supported at present; "
        "qpid.shared_msg_group is required if qpid.group_header_key is set",
    ),
]


@pytest.mark.parametrize(("options", "shown"), REFUSED, ids=[options for options, _ in REFUSED])
def test_refusals_in_the_brokers_words(capsys, options, shown):
    """FC-07, FC-11, CF-03, CF-05, LP-04, MG-01, QT-06, RF-23: status 1; as text and as data."""
    explanation = explained(options)
    assert (explanation.refusal.code, explanation.refusal.name) == (542, "invalid-argument")
    assert explanation.refusal.shown == shown and shown.endswith(explanation.refusal.text)
    words = ["q", *options.split(" ")]
    status, out, err = run(capsys, *words)
    assert (status, err) == (1, "")
    assert f"the broker refuses (542 invalid-argument)\n  {shown}" in out
    status, out, _ = run(capsys, *words, "--json")
    assert status == 1
    assert json.loads(out)["refusal"] == asdict(explanation.refusal)
    assert json.loads(out)["levels"] == []


def test_an_alternate_exchange_is_taken_for_granted():
    """qpid-config options: the exchange's existence is another matter."""
    assert explained("--alternate-exchange=alt").refusal is None
    assert explained("--alternate-exchange=amq.fanout").refusal is None
    assert explained("--alternate-exchange=amq.none").refusal.code == 404


def test_an_alternative_of_the_feature():
    """ALT-01: the levels are still those of the broker as shipped, and it says so."""
    explanation = explained("--max-queue-count=10", flow_control="java")
    assert ("ALT-01",) in rules(explanation)
    assert levels(explanation)["stop_count"] == 8


# The command


def test_the_config_command_prints_thresholds_alerts_and_a_hint(capsys):
    """FC-26: arguments, address, line, thresholds, alerts, hint; status 0."""
    status, out, err = run(
        capsys, "orders", "--max-queue-count=1000", "--flow-stop-count=900", "--flow-resume-count=500"
    )
    assert (status, err) == (0, "")
    arguments = "{'qpid.max_count': 1000, 'qpid.flow_stop_count': 900, 'qpid.flow_resume_count': 500}"
    for line in (
        "queue orders",
        "  qpid.flow_stop_count = 900",
        f"  orders; {{create: always, node: {{type: queue, x-declare: {{arguments: {arguments}}}}}}}",
        "  qpid-config add queue orders --max-queue-count=1000 --flow-stop-count=900 --flow-resume-count=500",
        "  stop_count         900 messages  given as qpid.flow_stop_count [FC-02.6]",
        "  when full: the message is refused, and its session dies [LP-05]",
        "  alert_count_down  400 messages  half of that, cut off; an event at 400 or less [QT-12]",
    ):
        assert line in out.splitlines()


def test_the_command_as_data(capsys):
    data = data_of(capsys, "orders", "--max-queue-count=90", "--durable")
    shown = [data[key] for key in ("name", "arguments", "durable", "autoDelete", "refusal")]
    assert shown == ["orders", {"qpid.max_count": 90}, True, False, None]
    assert [limit["name"] for limit in data["limits"]] == ["qpid.max_count", "qpid.max_size"]
    assert data["alerts"][0]["name"] == "qpid.alert_count_up"
    assert data["levels"][1] == {
        "name": "qpid.flow_resume_count",
        "value": 62,
        "unit": "messages",
        "why": "70 % of qpid.max_count=90, cut off",
        "rules": ["FC-02.5"],
    }
    assert data["remarks"][0]["rules"] == ["CAP-11"]
    assert data["qpid_config"] == "qpid-config add queue orders --max-queue-count=90 --durable"


@pytest.mark.parametrize("dashes", ["--", ""])
def test_the_broker_it_is_tried_on(capsys, monkeypatch, tmp_path, dashes):
    """Broker options, FC-10: options, environment and file of the broker."""
    monkeypatch.setenv("QPID_DEFAULT_FLOW_RESUME_THRESHOLD", "60")
    path = tmp_path / "qpidd.conf"
    path.write_text("default-event-threshold-ratio=50\nauth=no\n")
    option = f"--broker-option={dashes}default-flow-stop-threshold=90"
    data = data_of(capsys, "q", "--max-queue-count=100", option, f"--broker-config={path}")
    assert [row["value"] for row in data["levels"][:2]] == [90, 60]
    assert data["alerts"][0]["value"] == 50
    assert data["broker"]["not_modelled"] == ["auth"]


def test_a_broker_that_does_not_start(capsys):
    """FC-10, X-09: status 1 and qpidd's words."""
    words = "Default queue flow stop ratio must be >= flow resume ratio: flowStopRatio=60 flowResumeRatio=70"
    option = "--broker-option=--default-flow-stop-threshold=60"
    assert run(capsys, "q", option) == (1, f"the broker does not start\n  {words}\n", "")
    status, out, _ = run(capsys, "q", option, "--json")
    assert (status, json.loads(out)) == (
        1,
        {"refusal": {"shown": words, "by": "qpidd", "problems": [words]}},
    )


def test_declare_arguments_as_json(capsys):
    """The options are added to the map, as qpid-config adds its options to --argument."""
    given_ = '{"qpid.max_count": "100", "qpid.flow_stop_count": 80, "durable": true}'
    data = data_of(capsys, "q", "--declare", given_, "--flow-stop-count=90")
    assert data["arguments"] == {"qpid.max_count": "100", "qpid.flow_stop_count": 90}
    assert data["qpid_config"].endswith("queue q --max-queue-count=100 --flow-stop-count=90 --durable")


def test_the_parser_does_not_load_the_engine():
    """The qflow command adds every room's arguments before it knows which is meant."""
    script = "import sys, qflow.configuration.cli; sys.exit('qflow.broker' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# Address strings


CPP_STRING = r"'[^']*'|\"[^\"]*\""


def as_cpp_reads(address: str) -> Declaration:
    """Read what the writer writes as qpid-cpp does: quotes without escapes, dots in words (CF-14)."""
    name, options = re.fullmatch(rf"({CPP_STRING}|[^\s/;'\"]+); (.*)", address).groups()

    def unquote(text: str) -> str:
        return text[1:-1] if text[0] in "'\"" else text

    def spell(token: re.Match[str]) -> str:
        """Return it as Python has it."""
        is_plain = re.fullmatch(r"True|False|-?\d+(\.\d+)?", token[0])
        return token[0] if is_plain else repr(unquote(token[0]))

    options = re.sub(rf"{CPP_STRING}|[^\s'\"{{}}\[\],:/]+", spell, options)
    return Declaration.of_address(unquote(name), ast.literal_eval(options))


CLIENTS = {"qpid-cpp": as_cpp_reads, "qpid-python": read_address}


@pytest.mark.parametrize(
    ("declaration", "options"),
    [
        (Declaration("orders"), ""),
        (
            read_line("orders --group-header THE-GROUP --shared-groups"),
            ", x-declare: {arguments: {'qpid.group_header_key': 'THE-GROUP', 'qpid.shared_msg_group': 1}}",
        ),
        (
            Declaration("orders", {"it's": [1, -2.5, {"a": True}]}, True, True, True, "amq.fanout"),
            ", durable: True, x-declare: {alternate-exchange: 'amq.fanout', auto-delete: True, "
            "exclusive: True, arguments: {\"it's\": [1, -2.5, {'a': True}]}}",
        ),
    ],
)
def test_addresses_are_read_back_by_both_clients(declaration, options):
    """CF-14: a plain queue, the book's example with groups, and all properties, quotes and lists."""
    address = address_string(declaration)
    assert address == f"orders; {{create: always, node: {{type: queue{options}}}}}"
    assert [read(address) for read in CLIENTS.values()] == [declaration] * 2
    assert address_string(Declaration("my queue")).startswith("'my queue'; ")


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("q", {"a": None}, "read it differently; got None"),
        ("q", {"a": "back\\slash"}, "a text in an address must have printable"),
        ("q", {"a": "both ' and \""}, "a text in an address must have printable"),
        ("q", {"a": "two\nlines"}, "a text in an address must have printable"),
        ("q", {"a": 1 << 63}, "a value in an address must be"),
        ("q", {"a": 1e20}, "a value in an address must be"),
        ("#1", {}, "must not contain #"),
    ],
)
def test_what_no_address_says(name, arguments, text):
    """CF-14: then the explanation has none, and a note says why."""
    declaration = Declaration(name, arguments)
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        address_string(declaration)
    explanation = explain(declaration)
    assert explanation.address == ""
    assert any(remark.text.startswith("no address string: ") for remark in explanation.remarks)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        ("q; {node: {type: topic}}", "the node's type must be 'queue' here; got 'topic'"),
        ("q; {node: {x-declare: {arguments: [5]}}}", "arguments must be a map; got [5]"),
        ("q; {node: 5}", "no address: node: 5 is not a map"),
        ("q; {create: asdf}", "no address: create: asdf not in ('always', 'sender', 'receiver', 'never')"),
        ("q; {create always}", "no address: expecting COLON, got ID"),
        ("''", "a queue needs a name"),
        ("q" * 256, "a queue's name must be at most 255 bytes; got 256"),
    ],
)
def test_addresses_of_no_queue(capsys, address, complaint):
    """CF-14: malformed, unknown options, bad values, topics: status 2."""
    status, out, err = run(capsys, address, what=("address",))
    assert (status, out) == (2, "")
    assert err.startswith(complaint)


def test_an_address_on_the_command_line(capsys):
    """CF-14: the same is said of it as of the options."""
    address = "orders; {create: always, node: {x-declare: {arguments: {'qpid.max_count': 90}}}}"
    data = data_of(capsys, address, "--broker-option=default-queue-limit=0", what=("address",))
    assert data["levels"][1]["value"] == 62
    assert data["qpid_config"] == "qpid-config add queue orders --max-queue-count=90"


# Round trips

TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=8)
NAMES = TEXTS.filter(bool)
SENDABLE = st.one_of(
    st.none(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    TEXTS.filter(lambda text: isinstance(read_value(text), str)),
)
KNOWN = st.sampled_from(
    [option.key for option in OPTIONS] + ["qpid.policy_type", "qpid.replicate", "qpid.alert_count"]
)
KEYS = st.one_of(
    KNOWN,
    TEXTS.filter(lambda key: "=" not in key and key not in ("durable", "auto-delete", "alternate-exchange")),
)
POLICY = st.sampled_from(["ring", "reject", "self-destruct", "none"])


@settings(max_examples=100)
@given(
    NAMES,
    st.dictionaries(KEYS, st.one_of(SENDABLE, POLICY, st.just(1)), max_size=6),
    st.booleans(),
    st.booleans(),
    st.one_of(st.just(""), NAMES),
)
def test_a_line_reads_back(name, arguments, durable, auto_delete, alternate):
    """qpid-config options: what the tool can send, the line says, whichever option or --argument it takes."""
    declaration = Declaration(
        name, arguments, durable=durable, auto_delete=auto_delete, alternate_exchange=alternate
    )
    read = read_line(qpid_config_line(declaration))
    assert read == declaration
    assert [type(read.arguments[key]) for key in arguments] == [type(value) for value in arguments.values()]
    assert read.remarks == () or "ring" in arguments.values()


# Of most characters a text has no spelling that both clients read alike: these have one, but for both quotes.
SPELLED = st.text("aZ09_.-:,;{}[]é日 '\"", max_size=6)
SPOKEN = st.recursive(
    st.one_of(st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), SPELLED, st.just(2.5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(SPELLED, inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=60)
@given(SPELLED.filter(bool), st.dictionaries(SPELLED, SPOKEN, max_size=4), *[st.booleans()] * 3)
def test_both_clients_read_an_address_alike(name, arguments, durable, auto_delete, exclusive):
    """CF-14: what is written, qpid-cpp and qpid-python read as the same declaration."""
    declaration = Declaration(name, arguments, durable, auto_delete, exclusive)
    try:
        address = address_string(declaration)
    except ConfigurationError:
        reject()
    for read in CLIENTS.values():
        assert read(address) == declaration


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"qpid.max_count": "10"}, "--max-queue-count=10"),
        ({"qpid.shared_msg_group": True, "qpid.group_header_key": "G"}, "--group-header=G --shared-groups"),
        ({"qpid.browse-only": "1"}, "--argument qpid.browse-only=1"),
        ({"qpid.policy_type": "self-destruct"}, "--argument qpid.policy_type=self-destruct"),
        ({"qpid.last_value_queue_key": ""}, "--argument qpid.last_value_queue_key="),
        ({"qpid.file_count": 5}, "--argument qpid.file_count=5"),
        ({"-x": 5}, "--argument=-x=5"),
        ({"a b": "c'd"}, "--argument 'a b=c'\"'\"'d'"),
    ],
)
def test_lines_that_mean_the_same(arguments, line):
    """CF-03: what the tool cannot send as it is, it sends as the integer the broker reads alike."""
    assert qpid_config_line(Declaration("q", arguments)) == f"qpid-config add queue q {line}"


@pytest.mark.parametrize(
    ("declaration", "text", "got"),
    [
        (Declaration("q", {"qpid.max_count": 1.5}), "qpid.max_count must be null, a whole number, or", "1.5"),
        (Declaration("q", {"qpid.max_count": True}), "qpid.max_count must be null, a whole", "True"),
        (Declaration("q", {"x-mine": "10"}), "x-mine must be null, a whole number, or a string", "'10'"),
        (Declaration("q", {"x": [1]}), "x must be null, a whole number, or a string that does", "[1]"),
        (Declaration("q", {"a=b": 1}), "an argument's name must not contain =", "'a=b'"),
        (Declaration("q", {"durable": 1}), "an argument's name must not be a property's", "'durable'"),
        (Declaration("q", exclusive=True), "exclusive must be false for qpid-config", "true"),
    ],
)
def test_what_no_line_says(declaration, text, got):
    """qpid-config options: then the explanation has no line, and a note says why."""
    with pytest.raises(ConfigurationError) as raised:
        qpid_config_line(declaration)
    assert str(raised.value).startswith(text)
    assert str(raised.value).endswith(f"; got {got}")
    assert explain(declaration).line == ""
