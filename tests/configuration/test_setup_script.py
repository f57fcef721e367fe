"""Shell scripts of qpid-config lines: what the shell makes of them, what the broker holds and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import output_of, refusal

from qflow.broker import Broker, Message
from qflow.configuration.setup_script import SetupResult, parse_script, read_script
from qflow.kit import RefusalError

SETUPS = Path(__file__).parent / "setups"
SHOP = Path(__file__).parents[2] / "data" / "setups" / "shop.sh"

HELD = {
    # Counted by hand: queues, own exchanges, bindings, the lines of refusals.
    "shop": (20, 6, 12, []),
    "plant": (20, 6, 18, []),
    "bank": (19, 6, 18, [13, 24, 33, 34, 35, 36]),
}


@pytest.mark.parametrize("name", HELD)
def test_a_whole_setup(name):
    queues, exchanges, bindings, refused = HELD[name]
    result = SetupResult.of(read_script(SHOP if name == "shop" else SETUPS / f"{name}.sh"), Broker())
    held = result.asdict()
    assert (len(held["queues"]), len(held["exchanges"])) == (queues, exchanges)
    assert len(held["bindings"]) == bindings
    assert [one.step.line for one in result.refusals] == refused


def held_by(text):
    """Return the queues, by name, with their arguments, and the bindings that a script leaves."""
    result = SetupResult.of(parse_script(text), Broker())
    held = result.asdict()
    return held["queues"], held["bindings"], [str(refused) for refused in result.refusals], held["notes"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("qpid-config add queue a", ["a"]),
        ("qpid-config -a host:1 -t 5 add queue a", ["a"]),
        ("qpid-config -ahost:1 add queue a; qpid-config --broker=h add queue b", ["a", "b"]),
        ("qpid-config add queue a -b user/pw@host --ha-admin", ["a"]),
        ("/usr/bin/qpid-config add queue a && sudo qpid-config add queue b || exit 1", ["a", "b"]),
        ("qpid-config add queue \\\n  a \\\n --durable # b", ["a"]),
        ("# qpid-config add queue a\nqpid-config add queue b#", ["b#"]),
        ("qpid-config add queue 'a b'\nqpid-config add queue \"c # d\"", ["a b", "c # d"]),
        ("qpid-config add queue 'a\nb'", ["a\nb"]),
        (
            "N=a\nqpid-config add queue $N.1; qpid-config add queue ${N}2; qpid-config add queue '$N'",
            ["a.1", "a2", "$N"],
        ),
        ("qpid-config add queue ${NOT_SET:-a}", ["a"]),
        ("QC='qpid-config -a h'\nexport N=\"a\"\n$QC add queue $N", ["a"]),
        (
            "for i in 1 2; do for j in x y\ndo\nqpid-config add queue $i$j\ndone; done",
            ["1x", "1y", "2x", "2y"],
        ),
        ("for i in {9..11}; do qpid-config add queue q$i; done", ["q9", "q10", "q11"]),
        ("for i in {a,b}.x; do qpid-config add queue $i; done", ["a.x", "b.x"]),
        ("qpid-config add queue a > /dev/null 2>&1", ["a"]),
        ("if true; then\n qpid-config add queue a\nfi", ["a"]),
        ("echo qpid-config add queue a\nqpid-config add queue b", ["b"]),
        ('add() { qpid-config -a $B add queue "$1" $2; }\nB=h\nadd a; add b --durable', ["a", "b"]),
        ('qc ()\n{\n  qpid-config -b h "$@"\n}\nfor n in 1 2; do qc add queue q$n; done', ["q1", "q2"]),
        ("function make {\nfor n in a b; do\nqpid-config add queue $1.$n\ndone\n}\nmake x", ["x.a", "x.b"]),
        ("f() { f; }\nf\nqpid-config add queue a", ["a"]),
        ("while read n; do\n qpid-config add queue $n\ndone < list\nqpid-config add queue a", ["a"]),
        ("$NOTHING\nqpid-config add queue a", ["a"]),
        ("qpid-config add queue a\r\nqpid-config add queue b\r\n", ["a", "b"]),
    ],
)
def test_what_the_shell_makes_of_a_line(text, names):
    queues, _, refusals, _ = held_by(text)
    assert (list(queues), refusals) == (names, [])


def test_what_a_line_asks_for():
    queues, bindings, refusals, _ = held_by(
        "qpid-config add queue a --max-queue-count=0x10 --limit-policy ring --argument x=1 --argument y\n"
        "qpid-config add exchange topic t --durable --sequence\n"
        "qpid-config bind t a 'x.#'; qpid-config bind amq.fanout a; qpid-config unbind amq.fanout a\n"
    )
    assert queues == {"a": {"qpid.max_count": 16, "qpid.policy_type": "ring", "x": 1, "y": None}}
    assert (bindings, refusals) == ([["t", "a", "x.#"]], [])


def test_a_headers_binding_matches():
    """CF-07: the tool sends x-match and the pairs; what matches comes, what does not match does not."""
    broker = Broker()
    script = "qpid-config add queue q; qpid-config bind amq.match q k all kind=a size='b c'"
    assert not parse_script(script).apply(broker)
    session = broker.session("s")
    for headers in ({"kind": "a", "size": "b c"}, {"kind": "a"}, {"size": "b c", "kind": "a", "more": 1}):
        session.message_transfer(Message(1, headers=headers), "amq.match")
    assert broker.queue("q").statistics().msgDepth == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("add queue", "arguments are required: NAME"),
        ("add queue q --max-queue-count ten", "invalid integer value: 'ten'"),
        ("add queue q --cluster-durable", "unrecognized arguments: --cluster-durable"),
        ("add queue q --max-queue-count -1", "invalid conversion: Cannot convert from int64 to uint32"),
        ("add queue q --alternate-exchange none", "not-found: Exchange not found: none"),
        ("add exchange xml x", "Invalid exchange type: xml"),
        ("add exchange topic amq.topic", "object already exists: amq.topic"),
        ("add link l", "not-implemented: create link"),
        ("add thing t", "unknown object type: thing"),
        ("bind amq.topic", "takes an exchange, a queue"),
        ("bind amq.topic nowhere k", "No such queue: nowhere"),
        ("bind nowhere amq k", "not-found"),
        ("bind amq.match there", "all or any"),
        ("del queue nowhere", "not-found"),
        ("reload-acl", "must be add, del, bind or unbind here; got 'reload-acl'"),
    ],
)
def test_a_refused_line_does_not_stop_the_others(line, reason):
    text = f"qpid-config add queue there\nqpid-config {line}\nqpid-config add queue last"
    queues, _, refusals, _ = held_by(text)
    assert list(queues) == ["there", "last"]
    (refused,) = refusals
    assert refused.startswith("line 2: ") and reason in refused


def test_a_queue_with_messages_is_deleted_by_force_only():
    broker = Broker()
    assert not parse_script("qpid-config add queue q").apply(broker)
    broker.session("s").message_transfer(Message(1, routing_key="q"))
    for options, is_left in (("", True), ("--force-if-used", True), ("--force-if-not-empty", False)):
        refused = parse_script(f"qpid-config del queue q {options}").apply(broker)
        assert (bool(refused), "q" in broker.queues.queues) == (is_left, is_left)


@pytest.mark.parametrize(
    ("first", "again", "ends"),
    [
        ("set -euo pipefail", "qpid-config add queue a", True),
        ("set -e", "qpid-config add queue a || true", False),
        ("set -e", "qpid-config add queue a && echo there", False),
        ("set -e", "qpid-config add queue a; true", True),
        ("set -e", "qpid-config del queue none || qpid-config add queue more", False),
        ("# nothing", "qpid-config add queue a || exit 1", True),
        ("# nothing", "qpid-config add queue a", False),
    ],
)
def test_where_the_shell_ends(first, again, ends):
    queues, _, refusals, notes = held_by(
        f"{first}\nqpid-config add queue a\n{again}\nqpid-config add queue b"
    )
    assert ("b" not in queues, len(refusals)) == (ends, 1)
    assert notes == (["the shell ends at line 3, and 1 later commands are not done"] if ends else [])


def test_what_is_not_done_is_noted():
    _, _, _, notes = held_by("qpid-config -a x add queue a\nrm -rf /\nqpid-config -a y add queue $N")
    assert notes[0] == "line 2: 'rm' is not done here"
    assert notes[1] == "line 3: the script does not set $N, which is empty here"
    assert notes[2].startswith("its lines name 2 brokers (x, y)")


@pytest.mark.parametrize("text", ["", "echo hello", "for i in 1 2; do echo $i; done"])
def test_a_file_without_such_a_line_is_refused(text):
    with pytest.raises(RefusalError, match="must have at least one qpid-config command; got none"):
        parse_script(text)


def test_loops_that_never_end_are_refused():
    loops = "for a in {1..999}; do for b in {1..999}; do qpid-config add queue $a.$b; done; done"
    with pytest.raises(RefusalError, match="more than 20000 words"):
        parse_script(loops)


def test_the_config_script_command_prints_the_refused_lines(capsys, tmp_path):
    said = output_of(capsys, "config", "script", SETUPS / "bank.sh", status=1)
    assert "refused: line 36: qpid-config bind paymants" in said and "rates.eur" in said
    said = output_of(capsys, "config", "add", "exchange", "topic", "news", "--durable")
    assert "create exchange 'news'\n  exchange-type = \"topic\"\n  durable = 1\nthe broker takes it" in said
    said = output_of(capsys, "config", "add", "exchange", "xml", "x", status=1)
    assert "the broker refuses\n  Invalid exchange type: xml" in said
    said = output_of(capsys, "config", "bind", "amq.match", "q", "k", "any", "a=1")
    assert 'x-match = "any"' in said
    (tmp_path / "qpidd.conf").write_text("default-flow-stop-threshold=90\n")
    (tmp_path / "s.sh").write_text("qpid-config add queue q --max-queue-count 10\n")
    words = ("--broker-config", tmp_path / "qpidd.conf")
    assert "9 messages" in output_of(capsys, "config", "script", tmp_path / "s.sh", *words)
    assert "9 messages" in output_of(capsys, "config", *words, "script", tmp_path / "s.sh")
    assert "no such" in refusal(capsys, "config", "script", tmp_path / "none").lower()
