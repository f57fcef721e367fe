"""Page kernel: the substitute for a notebook kernel that runs the labs of a page, in the page's worker.

A page contains the code of the cells that made its labs (:mod:`qflow.launch.page_labs`). When the reader
first touches a lab, the worker runs its cell and the cells that it needs, as a notebook would, in one
namespace for the page. The widgets are the same as in a notebook. ipywidgets sends their state through comms,
which are two-way message channels between a kernel and its front end; here a comm passes its messages to the
page, where ``page/kernel.js`` draws them. IPython itself would take longer to load than the engine, so a few
lines replace the names that ipywidgets imports from it.
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
"""A function that sends a message to the page: a JSON text, and the buffers of bytes that belong to it."""


class _PageKernel:
    """The kernel of one page: the namespace in which its cells run, and the widgets that they show."""

    def __init__(self, post: _Post) -> None:
        self._post = post
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._ran: set[str] = set()
        self._shown: list[str] = []
        self._stand_in()

    def answer(self, asked: Mapping[str, Any], buffers: Sequence[Any] = ()) -> dict[str, Any]:
        """Run the cells of a request and return the widgets shown, or pass a message to a widget's comm."""
        if "cells" in asked:
            return {"shown": self._run(asked["cells"])}
        manager = importlib.import_module("comm").get_comm_manager()
        content = {"comm_id": asked["comm"], "data": asked["data"]}
        manager.comm_msg(None, None, {"content": content, "buffers": list(buffers)})
        return {}

    def _run(self, cells: Sequence[Mapping[str, str]]) -> list[str]:
        """Run those cells that have not run yet; return the model ids of the widgets of the last one."""
        for cell in cells:
            # A cell that has run is requested again only if the page sent a request twice: keep its widgets.
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
        """Record the widgets among the values that a cell shows; the page contains all its other outputs."""
        for value in shown:
            draw = getattr(value, "_repr_mimebundle_", None)
            bundle = draw(include=None, exclude=None) if draw else {}
            # An anywidget returns a pair of data and metadata.
            view = (bundle[0] if isinstance(bundle, tuple) else bundle or {}).get(
                "application/vnd.jupyter.widget-view+json"
            )
            if view:
                self._shown.append(view["model_id"])

    def _stand_in(self) -> None:
        """Install substitutes for IPython's modules, and comms that post their messages to the page."""
        # A comm notifies the event listeners of its shell of each message; here there are none.
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
    """Start the kernel of a page; it sends its messages with `post`."""
    _kernels.append(_PageKernel(post))
    # Load the imports of every lab now, while the reader is still looking for something to drag.
    importlib.import_module("qflow.labs.experiments")


async def answer(asked: str, buffers: Sequence[Any] = ()) -> str:
    """Let the page's kernel run cells or take a message; return the ids of the shown widgets, or an error."""
    # Request and answer are JSON.
    try:
        found = _kernels[-1].answer(json.loads(asked), buffers)
    except Exception as error:  # the reader is shown a sentence, and the page keeps replaying the stored run
        return json.dumps({"error": f"{type(error).__name__}: {error}"})
    # A long run continues in an asyncio task: let it start before the page gets this answer.
    await asyncio.sleep(0)
    return json.dumps(found)
