"""Addresses as C++ clients read them, beside Python's."""

from __future__ import annotations

import json

import pytest
from commands import output_of, refusal

from qflow.configuration.declaration import ConfigurationError, Declaration
from qflow.configuration.notations import CPP, PYTHON, address_readings, read_address
from qflow.messaging import Connection, MalformedAddress
from qflow.messaging.address import LexError, parse, parse_cpp

ARGUMENTS = "{{create: always, node: {{x-declare: {{arguments: {{{}}}}}}}}}"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (
            "qpid.group_header_key: 'G', qpid.shared_msg_group: 1",
            {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1},
        ),
        (
            "qpid.policy_type: ring, qpid.max_count: 1000",
            {"qpid.policy_type": "ring", "qpid.max_count": 1000},
        ),
        ("qpid.max_count:10,", {"qpid.max_count": 10}),
        ("'qpid.max_count' : \"10\"", {"qpid.max_count": "10"}),
        ("qpid.shared_msg_group: True", {"qpid.shared_msg_group": "True"}),
        (
            "a.b: 1.5, c: -3, d: x-y.z#, e: [1, b, {f: 2}]",
            {"a.b": 1.5, "c": -3, "d": "x-y.z#", "e": [1, "b", {"f": 2}]},
        ),
    ],
)
def test_what_cpp_reads(text, arguments):
    assert read_address(f"q; {ARGUMENTS.format(text)}", CPP).arguments == arguments


@pytest.mark.parametrize(
    "text",
    [
        "q; {a.b: 1}",
        "q/s; {create: always",
        "q; {a: 'x}",
        "q; {a}",
        "q; {a: }",
        "q; {} x",
        "",
        "q; {a: [1, 2}",
        "q x",
    ],
)
def test_what_cpp_cannot_read(text):
    if text == "q; {a.b: 1}":
        assert parse_cpp(text).options == {"a.b": 1}
        return
    with pytest.raises(LexError):
        parse_cpp(text)


@pytest.mark.parametrize(
    "text",
    [
        "q", "q/subject", "amq.topic/news.#", "'a b'", "q; {}", "q; {create: always}",
        "q; {create: always, node: {durable: True, x-declare: {arguments: {'qpid.max_count': 10}}}}",
        "q/s; {link: {name: l, x-bindings: [{exchange: 'amq.topic', key: 'a.b'}]}}",
    ],
)  # fmt: skip
def test_where_both_agree(text):
    python, cpp = parse(text), parse_cpp(text)
    assert (python.name, python.subject) == (cpp.name, cpp.subject)
    as_text = json.loads(json.dumps(python.options), parse_constant=str)
    assert str(as_text) == str(cpp.options).replace("'True'", "True")


def test_links_of_cpp_have_a_selector_and_a_timeout():
    text = 'q; {link: {selector: "a = 1", timeout: 5}}'
    readings = address_readings(text)
    assert isinstance(readings[PYTHON], ConfigurationError) and isinstance(readings[CPP], Declaration)


@pytest.mark.parametrize(("word", "durable"), [("True", True), ("False", False), ("1", True)])
def test_a_boolean_as_text_is_one(word, durable):
    assert read_address(f"q; {{node: {{durable: {word}}}}}", CPP).durable is durable
    with pytest.raises(ConfigurationError, match="durable must be true or false"):
        read_address("q; {node: {durable: perhaps}}", CPP)


def test_the_command_says_who_reads_what(capsys):
    dotted = f"groups; {ARGUMENTS.format('qpid.max_count: 10')}"
    said = output_of(capsys, "config", "address", dotted)
    assert said.startswith("qpid-python: no address: expecting COLON, got SYM(.)")
    assert "\nqpid-cpp: reads it\nqueue groups\n" in said
    flag = f"q; {ARGUMENTS.format(chr(39) + 'qpid.shared_msg_group' + chr(39) + ': True')}"
    flag = flag.replace("arguments: {", "arguments: {'qpid.group_header_key': g, ")
    said = output_of(capsys, "config", "address", flag)
    assert "qpid-cpp: reads qpid.shared_msg_group = 'True', the same to the broker" in said
    told = json.loads(output_of(capsys, "config", "address", "q; {create: always}", "--json"))
    assert told["clients"] == {PYTHON: "reads it", CPP: "reads the same"}
    assert "no address" in refusal(capsys, "config", "address", "q; {")


def test_messaging_names_the_difference_and_stays_python():
    session = Connection.establish("cpp.example").session()
    with pytest.raises(MalformedAddress, match=r"got SYM\(\.\).*; qpid-cpp reads this address.*quotes$"):
        session.sender(f"q; {ARGUMENTS.format('qpid.max_count: 10')}")
    with pytest.raises(MalformedAddress) as raised:
        session.sender("q; {create: always")
    assert "cpp" not in str(raised.value)


def test_a_queue_without_limits_is_never_full(capsys):
    assert "when full: never" in output_of(capsys, "config", "add", "queue", "q", "--max-queue-size=0")
    assert "when full: the message is refused" in output_of(capsys, "config", "add", "queue", "q")
