"""Cases: shows a case of an exercise in a lab, as the engine's run for it, which can be played step by step.

In JupyterLab a failed check has a button that opens its first failed case in a lab. Readers without a kernel,
a terminal and the notebook tests get only the text of the check.

Every check runs the engine, so the run for a failed case can be recorded and drawn like any trace. A trial
does everything at one instant; here each command is moved to a time of its own, so that the run can be
watched. In an exercise on configuration, the broker or its tool may refuse the queue, so that there is no
run; then the declaration is opened in the configuration lab.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from qflow.broker.events import COMMANDS
from qflow.kit import RefusalError
from qflow.labs.opened import run_picture
from qflow.labs.picture import Picture, picture_of
from qflow.labs.topology import topology_of_events
from qflow.teaching.exercise import Answer, Exercise
from qflow.teaching.hints import Hints
from qflow.teaching.trial import record_trials
from qflow.trace.schema import Trace, TraceError
from qflow.workload import Run, Workload

if TYPE_CHECKING:
    from qflow.labs.config_widget import ConfigLab
    from qflow.labs.lab import Lab

PAUSE = 100_000
"""The microseconds between two commands."""

_LONGEST = 10_000_000
"""The most microseconds for all commands; if there are very many, the pause between them is shorter."""

_SEEN_AT_ONCE = {
    "session.attach",
    "session.completed",
    "message.set_flow_mode",
    "queue.query",
    "exchange.bind",
}
"""Commands that happen at the time of the command before them, as they show nothing by themselves."""


def case_picture(exercise: Exercise, case: tuple[Any, ...], answer: Answer | None = None) -> Picture:
    """Return a picture of the run that a case of an exercise makes; raise RefusalError if it makes none."""
    with record_trials() as seen:
        exercise.result(answer if answer and exercise.is_task else exercise.function, case)
    for found in reversed(seen):
        try:
            return run_picture(found) if isinstance(found, Run) else _draw(_spread_commands(found))
        except TraceError:
            continue  # no queue was declared in this trial
    raise RefusalError(f"{exercise.name} has no run of the engine to show in this case.")


def _case_lab(exercise: Exercise, case: tuple[Any, ...], answer: Answer | None = None) -> Lab | ConfigLab:
    """Return a lab that shows a case of an exercise: the engine's run, or the configuration lab."""
    from qflow.labs.config_widget import config_lab
    from qflow.labs.lab import Lab

    try:
        return Lab(case_picture(exercise, case, answer)).play()
    except RefusalError:
        if exercise.lab != "configuration":
            raise
        tried = exercise.try_answer(answer, case) if answer and exercise.is_task else case[0]
        text, options = _write_configuration(tried)
        # Set the text in an open lab, which shows a refused text together with the refusal.
        lab = config_lab()
        lab.options.value, lab.typed.value = options, text
        return lab


_SHOW, _CLOSE = "show me this case", "close this case"


def show_verdict(
    words: str, exercise: Exercise, case: tuple[Any, ...], answer: Answer, *, is_hint_shown: bool
) -> Any:
    """Return a widget of a verdict's text with buttons for the next hint and for the failed case."""
    widgets: Any = import_module("ipywidgets")
    hints = Hints("exercises", exercise.name, exercise.hints, int(is_hint_shown))
    parts, buttons = [widgets.HTML(words), hints.text, widgets.HBox()], [hints.button]
    if exercise.lab and not is_hint_shown:
        button = widgets.Button(description=_SHOW, layout={"width": "auto"}).add_class("qf-case")
        button.tooltip = f"The broker's behaviour: {exercise.call(case)}"
        opened = widgets.VBox()
        button.on_click(lambda _: _open_or_close(button, opened, exercise, case, answer))
        buttons.append(button)
        parts.append(opened)
    parts[2].children = buttons
    return widgets.VBox(parts).add_class("qf-verdict")


def _open_or_close(button: Any, box: Any, exercise: Exercise, case: tuple[Any, ...], answer: Answer) -> None:
    """Open a case in a lab inside `box`, or close the lab that is open there."""
    if box.children:
        for child in box.children:
            child.close()
        box.children, button.description = (), _SHOW
        return
    write = import_module("ipywidgets").HTML
    try:
        lab = _case_lab(exercise, case, answer)
    except RefusalError as error:
        box.children = (write(html.escape(str(error))),)
        return
    head = f"<p>The broker's behaviour: <code>{html.escape(exercise.call(case))}</code></p>"
    box.children, button.description = (write(head), lab), _CLOSE


def _write_configuration(tried: object) -> tuple[str, str]:
    """Return the texts for the two fields of the configuration lab: a queue, and the broker's options."""
    if isinstance(tried, Mapping) and set(tried) == {"broker", "queue"}:
        options = tried["broker"] if isinstance(tried["broker"], Mapping) else {}
        line = " ".join(f"--{str(name).replace('_', '-')}={value}" for name, value in options.items())
        return _write_configuration(tried["queue"])[0], line
    if isinstance(tried, Mapping):
        keys = {key if "." in str(key) else f"qpid.{key}": value for key, value in tried.items()}
        return json.dumps(keys, default=str), ""
    if isinstance(tried, list | tuple):
        return "q --max-queue-count=100", " ".join(map(str, tried))
    return str(tried).removeprefix("qpid-config add queue "), ""


def _draw(run: Run) -> Picture:
    """Return the picture of a trial's run, whose clients have no windows, so that no waits are shown."""
    topology = topology_of_events(run)
    if not topology.queues:
        raise TraceError("no queue was declared")
    producers = tuple(replace(spot, is_measured=True) for spot in topology.producers)
    return picture_of(run, topology=replace(topology, producers=producers))


def _spread_commands(trace: Trace) -> Run:
    """Return a trace as a run in which the commands happen one after the other, at different times."""
    events = list(trace.events())
    begins = [event.kind in COMMANDS and event.kind not in _SEEN_AT_ONCE for event in events]
    pause = max(1, min(PAUSE, _LONGEST // max(sum(begins), 1)))
    instants = accumulate(begins)
    timed = [event._replace(time=event.time + pause * next(instants)) for event in events]
    end = timed[-1].time + pause if timed else 0
    return Run(Workload(trace.run, 1, {}, options=trace.options), timed, end)
