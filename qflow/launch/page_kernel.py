"""Page kernel: the Python behind the labs of one page of the book, in that page's worker.

A page holds the code of the cells that made its labs (:mod:`qflow.launch.page_labs`). At the first touch of
one, the worker runs that cell and those that it needs, as a notebook would, in one namespace for the page.
The widgets are those of a notebook, too: ipywidgets sends their state through comms, and here a comm hands
its messages to the page, where ``page/kernel.js`` draws them. IPython itself would take longer to load than
the engine, so a few lines stand in for the names that ipywidgets imports.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

_Post = Callable[[str, Sequence[object]], object]
"""Sends a message to the page: JSON, and the buffers that belong to it."""


class _PageKernel:
    """The namespace of a page, and the widgets shown by its cells."""

    def __init__(self, post: _Post) -> None:
        self._post = post
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._ran: set[str] = set()
        self._shown: list[str] = []
        self._stand_in()

    def answer(self, asked: Mapping[str, Any], buffers: Sequence[Any] = ()) -> dict[str, Any]:
        """Run cells, or pass a message from the page to a widget's comm."""
        if "cells" in asked:
            return {"shown": self._run(asked["cells"])}
        manager = importlib.import_module("comm").get_comm_manager()
        content = {"comm_id": asked["comm"], "data": asked["data"]}
        manager.comm_msg(None, None, {"content": content, "buffers": list(buffers)})
        return {}

    def _run(self, cells: Sequence[Mapping[str, str]]) -> list[str]:
        """Run the cells that have not run yet; return the widgets of the last one, by their ids."""
        for cell in cells:
            # A cell that is shown runs again at most because a page was asked twice: its widgets stay.
            if cell["id"] in self._ran:
                continue
            self._shown = []
            tree = ast.parse(cell["source"], cell["id"])
            *_, last = tree.body
            if isinstance(last, ast.Expr):
                tree.body.remove(last)
            exec(compile(tree, cell["id"], "exec"), self._names)
            if isinstance(last, ast.Expr):
                self._show(eval(compile(ast.Expression(last.value), cell["id"], "eval"), self._names))
            self._ran.add(cell["id"])
        return self._shown

    def _show(self, *shown: Any) -> None:
        """Record the widgets that a cell shows; the page has its other outputs already."""
        for value in shown:
            draw = getattr(value, "_repr_mimebundle_", None)
            bundle = draw(include=None, exclude=None) if draw else {}
            # An anywidget returns its metadata as well.
            view = (bundle[0] if isinstance(bundle, tuple) else bundle or {}).get(
                "application/vnd.jupyter.widget-view+json"
            )
            if view:
                self._shown.append(view["model_id"])

    def _stand_in(self) -> None:
        """Replace IPython's modules, and a kernel's comms by ones that post."""
        # A comm tells its shell's listeners, here none, that a message is worked on.
        shell = SimpleNamespace(kernel=self, events=SimpleNamespace(trigger=lambda _: None))
        never = type("InteractiveShell", (), {"initialized": staticmethod(lambda: False)})
        modules: dict[str, dict[str, object]] = {
            "IPython": {"get_ipython": lambda: shell},
            "IPython.display": {"display": self._show, "clear_output": lambda **_: None},
            "IPython.core": {},
            "IPython.core.interactiveshell": {"InteractiveShell": never},
        }
        for name, held in modules.items():
            module = sys.modules[name] = ModuleType(name)
            vars(module).update(held)
        comm: Any = importlib.import_module("comm")
        post = self._post

        class PageComm(comm.base_comm.BaseComm):
            """A comm whose messages are posted to the page."""

            def publish_msg(
                self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
            ) -> None:
                text = json.dumps({"comm": self.comm_id, "type": msg_type, "data": data or {}})
                post(text, list(buffers or ()))

        comm.create_comm = PageComm


_kernels: list[_PageKernel] = []


def connect(post: _Post) -> None:
    """Start a page's kernel; `post` sends its messages."""
    _kernels.append(_PageKernel(post))
    # What every lab imports is loaded while the reader still looks for what to drag.
    importlib.import_module("qflow.labs.experiments")


async def answer(asked: str, buffers: Sequence[Any] = ()) -> str:
    """Return, as JSON, the answer of the page's kernel, or the error of a cell that cannot run."""
    try:
        found = _kernels[-1].answer(json.loads(asked), buffers)
    except Exception as error:  # whoever reads a page is shown a sentence, and the film goes on
        return json.dumps({"error": f"{type(error).__name__}: {error}"})
    # A run that takes long goes on in a task: let it set out before the page hears that this was heard.
    await asyncio.sleep(0)
    return json.dumps(found)
