"""A living document fails when its rule is broken: forty rules of the engine, broken one at a time."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from qflow.kit import form

RUNNER = Path(__file__).with_name("broken_rule.py")


class Broken(NamedTuple):
    """A rule, how it is broken in a module of the engine, and the chapter that teaches it."""

    rule: str
    module: str
    old: str
    new: str
    chapter: str


ONE, TWO, THREE, FOUR = "01-thresholds", "02-bytes-and-counts", "03-held-completions", "04-capacity"
FIVE, SIX, SEVEN = "05-message-groups", "06-well-behaved-consumers", "07-configuration"
EIGHT, NINE, TEN, ELEVEN = "08-several-queues", "09-other-queues", "10-how-it-was-designed", "11-errata"
SEVENTEEN = "17-more-about-completions"

# Ten that are quick to fail, of every kind: these run with all other tests.
QUICK = [
    Broken("FC-14 above, not at", "flow_limit", "count > stop_count", "count >= stop_count", ONE),
    Broken("FC-16 in bytes", "flow_limit", "size < resume_size", "size <= resume_size", TWO),
    Broken(
        "FC-17 order of release",
        "flow_limit",
        "transfer in held.values()",
        "transfer in [*held.values()][::-1]",
        THREE,
    ),
    Broken(
        "FC-19 counts turns",
        "flow_limit",
        "        if self.stopped:\n            self.held",
        "        if self.stopped:\n            self.stopped_count += 1\n            self.held",
        ONE,
    ),
    Broken(
        "MG-05 default group",
        "groups",
        "name or self.context.options.default_message_group",
        'name or "none"',
        FIVE,
    ),
    Broken("MG-07 one owner", "groups", "            state.owner = owner\n", "", FIVE),
    Broken(
        "CN-14 a release wakes",
        "queue",
        '            self._show_moved("requeued", message)\n        self.listeners.wake()',
        '            self._show_moved("requeued", message)',
        SIX,
    ),
    Broken("MG-13 an accept wakes nobody", "queue", 'self.context.options.wake_up == "eager"', "True", SIX),
    Broken(
        "ALT-07 at the watermark", "history", "count >= marks.stop_count", "count > marks.stop_count", TEN
    ),
    Broken(
        "ALT-06 the list ends with its session",
        "history",
        "        self.is_active = False\n        self.waiting.clear()",
        "        pass",
        TEN,
    ),
]

OTHERS = [
    Broken("FC-16 below, not at", "flow_limit", "count < resume_count", "count <= resume_count", ONE),
    Broken("FC-14 in bytes", "flow_limit", "size > stop_size", "size >= stop_size", TWO),
    Broken(
        "FC-14 one unit is enough",
        "flow_limit",
        "count > stop_count) or (stop_size",
        "count > stop_count) and (stop_size",
        TWO,
    ),
    Broken(
        "FC-16 both units", "flow_limit", "size < resume_size) and (not", "size < resume_size) or (not", TWO
    ),
    Broken("FC-15 holds what arrives", "flow_limit", "            self.hold(message.transfer)\n", "", ONE),
    Broken(
        "FC-17 all are released",
        "flow_limit",
        "transfer in held.values()",
        "transfer in [*held.values()][:1]",
        ONE,
    ),
    Broken(
        "FC-17 its own message leaves",
        "flow_limit",
        "            if own is not None:\n                self.release_hold(own)",
        "            pass",
        THREE,
    ),
    Broken("FC-02 stop is rounded", "flow_limit", "(ratio / 100.0) + 0.5)", "(ratio / 100.0))", SEVEN),
    Broken(
        "FC-04 resume is truncated",
        "flow_limit",
        "return int(maximum * (ratio / 100.0))\n",
        "return round(maximum * (ratio / 100.0))\n",
        SEVEN,
    ),
    Broken(
        "FC-09 a forgotten unit",
        "flow_limit",
        "        return Level(resume.value, Origin.RESIDUE, resume.origin) if resume.value else resume",
        "        return Level(0, Origin.RESIDUE, resume.origin)",
        TWO,
    ),
    Broken("FC-05 resume above stop", "flow_limit", "if resume.value > stop.value:", "if False:", ONE),
    Broken("FC-03 rings are exempt", "flow_limit", 'return settings.policy == "ring"', "return False", NINE),
    Broken(
        "FC-10 the default is 80",
        "options",
        "default_flow_stop_threshold: int = 80",
        "default_flow_stop_threshold: int = 90",
        SEVEN,
    ),
    Broken(
        "LP-02 exactly full fits",
        "queue",
        "self.max_count and count > self.max_count",
        "self.max_count and count >= self.max_count",
        ONE,
    ),
    Broken(
        "LP-05 a full queue ends the session",
        "limits",
        "raise ResourceLimitExceededException(text)",
        "return None",
        ONE,
    ),
    Broken(
        "DQ-05 a header counts",
        "message",
        "size = self.content_size + _STRUCT +",
        "size = self.content_size +",
        TWO,
    ),
    Broken(
        "CM-04 in any order",
        "options",
        'completions: str = "any-order"',
        'completions: str = "in-order"',
        THREE,
    ),
    Broken(
        "CM-10 transactions are not held",
        "queue",
        "        if transfer.transaction is None:\n            target.enqueue",
        "        if True:\n            target.enqueue",
        SEVENTEEN,
    ),
    Broken(
        "MG-08 a settled group is free",
        "groups",
        "            self._free(state)\n            # Cursors",
        "            # Cursors",
        FIVE,
    ),
    Broken(
        "MG-04 32 bits",
        "message",
        "return str((value + (1 << 31)) % (1 << 32) - (1 << 31))",
        "return str(value)",
        FIVE,
    ),
    Broken(
        "CN-12 prefetch",
        "consuming",
        "self.granted >= (self.used + need) % _MODULUS",
        "self.granted > (self.used + need) % _MODULUS",
        FIVE,
    ),
    Broken(
        "CN-16 to the alternate",
        "queue",
        '        self.remove(message, "reject")\n        try:\n            if self.alternate is not None:',
        '        self.remove(message, "reject")\n        try:\n            if False:',
        SIX,
    ),
    Broken(
        "CN-17 a session's end requeues",
        "consuming",
        "            self.records[number].release(set_redelivered=True)\n        self.records.clear()",
        "            pass\n        self.records.clear()",
        SIX,
    ),
    Broken("CN-15 redelivered", "consuming", "message.delivery_count > 0", "False", SIX),
    Broken("ALT-08 consumed from all queues", "history", "(not self.remaining or not any", "(not any", TEN),
    Broken("ALT-08 a blocking queue marks", "history", "self.is_set = True", "self.is_set = False", TEN),
    Broken("CM-16 ON is not sent", "history", "limit.stopped = bool(", "limit.stopped = True or bool(", TEN),
    Broken("QT-01 last values replace", "queue", "if replaced is not None:", "if False:", NINE),
    Broken(
        "LP-15 the queue destroys itself",
        "limits",
        'queue.context.destroy_queue(queue.name, "self-destruct")',
        "pass",
        NINE,
    ),
    Broken(
        "CM-02 each queue holds",
        "message",
        "        self.pending += 1\n        if self._holders is None:",
        "        self.pending += self._holders is None\n        if self._holders is None:",
        EIGHT,
    ),
]


def test_there_are_forty():
    assert len({broken.rule for broken in (*QUICK, *OTHERS)}) == 40


@pytest.mark.skipif(form() == "compiled", reason="a rule is broken in the source of its module")
@pytest.mark.parametrize(
    "broken",
    [*QUICK, *(pytest.param(broken, marks=pytest.mark.mutation) for broken in OTHERS)],
    ids=lambda broken: broken.rule,
)
def test_the_chapter_fails(broken):
    """The chapter that teaches the rule fails, with an assertion or an error of its own cells."""
    words = (f"qflow.broker.{broken.module}", broken.old, broken.new, broken.chapter)
    run = subprocess.run([sys.executable, RUNNER, *words], capture_output=True, text=True, timeout=600)
    assert f"sources/{broken.chapter}.py" in run.stderr, run.stderr or "the chapter passes"
    assert run.returncode == 1
