"""The fuzzer: pieces hold, what does not hold is found and cut short."""

import os

import fuzz as fuzzing
import pytest
from fuzz import TARGETS, fuzz, run_piece

from qflow.broker.completions import Completions
from qflow.broker.queue import Queue
from qflow.kit import form
from qflow.messaging import Sender


@pytest.mark.parametrize(("target", "commands"), [("engine", 2_000), ("messaging", 1_000)])
def test_a_small_piece_holds(target, commands):
    """CM-02, CN-05: of some thousand commands, drawn anyhow."""
    given, finding = run_piece(target, seed=6, piece=0, commands=commands)
    assert (given, str(finding)) == (commands, "None")


@pytest.mark.fuzz
def test_as_many_commands_as_are_asked_for_hold(capsys):
    commands, seed = (
        int(os.environ.get(f"QFLOW_FUZZ_{name}", n)) for name, n in (("COMMANDS", 10**5), ("SEED", 1))
    )
    with capsys.disabled():
        if again := os.environ.get("QFLOW_FUZZ_PIECE"):
            target, seed, piece = again.split("/")
            assert run_piece(target, int(seed), int(piece))[1] is None
        else:
            assert fuzz(list(TARGETS), seed, commands) == 0


def never_held(completions, transfer):
    """Complete a transfer twice."""
    original_complete(completions, transfer)
    completions.context.tell("completed", session=completions.session, names=("command",), values=(0,))


def forget_the_room(queue, message, reason, in_transaction=False):
    """Take a message off a queue, and count one more than that."""
    original_remove(queue, message, reason, in_transaction)
    queue.counters.dequeue(message.transfer.size, in_transaction)


def raise_what_is_not_documented(queue, message, set_redelivered):
    raise KeyError(message)


original_complete, original_remove = Completions.transfer_complete, Queue.remove

BROKEN = [
    ("engine", Completions, "transfer_complete", never_held, "CM-02"),
    ("engine", Queue, "remove", forget_the_room, "DQ-01"),
    ("engine", Queue, "release", raise_what_is_not_documented, "KeyError"),
    ("messaging", Queue, "remove", forget_the_room, "DQ-01"),
    ("messaging", Sender, "_has_room", lambda sender: True, "CAP-01"),
]


@pytest.mark.skipif(form() == "compiled", reason="a method of the compiled engine cannot be replaced")
@pytest.mark.parametrize(("target", "owner", "method", "broken", "rule"), BROKEN)
def test_what_does_not_hold_is_found_and_cut_to_few_commands(
    monkeypatch, target, owner, method, broken, rule
):
    """The same piece again, without being cut, finds the same."""
    monkeypatch.setattr(owner, method, broken)
    monkeypatch.setattr(fuzzing, "_TRIES", 60)
    given, finding = run_piece(target, seed=6, piece=0)
    assert finding is not None
    assert rule in finding.error
    assert len(finding.commands) <= finding.prefix <= given
    assert len(finding.commands) < 40
    assert f"QFLOW_FUZZ_PIECE={target}/6/0 " in str(finding)
    monkeypatch.setattr(fuzzing, "_TRIES", 0)
    assert run_piece(target, seed=6, piece=0)[1].error == finding.error
