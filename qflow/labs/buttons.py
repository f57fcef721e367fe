"""Buttons: what the scene asks of a lab besides why: a fork, a comparison, a token, a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.labs.comparison import Comparison
from qflow.labs.forking import actions_of, fork_picture
from qflow.labs.html_export import to_html
from qflow.labs.picture import Picture

if TYPE_CHECKING:
    from qflow.labs.lab import Lab


class Buttons:
    """Answers a lab's buttons.

    Parameters
    ----------
    lab
        Whose.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._answers = {
            "fork": self._fork,
            "compare": self._compare,
            "token": self._token,
            "html": self._save,
        }
        lab.scene.on_msg(self._heard)
        self.offer()

    def offer(self) -> None:
        """Tell the scene what can be asked for, now that this is shown."""
        lab = self._lab
        offers = ["html"]
        if lab.can_compare:
            offers += ["compare", *(["pinned"] if isinstance(lab.picture, Comparison) else [])]
        if lab.can_share:
            offers.append("token")
        lab.scene.offers = offers
        can_fork = lab.can_explain and isinstance(lab.picture, Picture)
        lab.scene.actions = list(actions_of(lab.first).items()) if can_fork else []

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        answer = self._answers.get(content.get("ask", ""))
        if answer is None:
            return
        try:
            answer(content)
        except Exception as error:  # whoever only pressed a button is never shown a traceback
            self._lab.scene.refusal = str(error)

    def _fork(self, content: dict[str, Any]) -> None:
        lab = self._lab
        if isinstance(lab.picture, Picture):
            timeline = lab.why.timeline(lab.picture)
            both = fork_picture(lab.picture, int(content["frame"]), content["action"], timeline)
            lab.show_beside(both)
            lab.scene.place = {"time": int(content["time"]), "back": 0, "number": lab.scene.run}

    def _compare(self, _: dict[str, Any]) -> None:
        self._lab.compare()

    def _token(self, content: dict[str, Any]) -> None:
        self._lab.scene.token = self._lab.token(int(content["time"]), int(content["back"]))

    def _save(self, content: dict[str, Any]) -> None:
        place = {"time": int(content["time"]), "back": int(content["back"])}
        path = _free(Path("qflow-run.html"))
        path.write_text(to_html(self._lab.picture, place=place), encoding="utf-8")
        self._lab.scene.token = f"saved: {path}"

    def close(self) -> None:
        """Answer nothing any more."""
        self._lab.scene.on_msg(self._heard, remove=True)


def _free(path: Path) -> Path:
    """Return a name that no file has yet, so that none is overwritten."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
