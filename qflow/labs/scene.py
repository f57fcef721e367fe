"""Scene: the widget that draws pictures. Its script and style are files beside this module.

Layout: in which order everyone is drawn from top to bottom, so that few lines cross.

The columns are given: producers, exchanges, queues, consumers. Within each, whoever is joined comes at the
same height, as far as there is room; this needs a graph, and no numpy.
"""

from __future__ import annotations

from importlib.resources import files

import anywidget
import networkx as nx
import traitlets

from qflow.labs.picture import Comparison, Picture
from qflow.labs.topology import Topology

ROUNDS = 4
KINDS = ("producer", "exchange", "queue", "consumer")

Node = tuple[str, int]


def graph_of(topology: Topology) -> nx.DiGraph:
    """Return who hands messages to whom, as a graph.

    Parameters
    ----------
    topology
        Who takes part.

    Returns
    -------
    networkx.DiGraph
        Nodes are (kind, index); the kinds are those of :data:`KINDS`.

    Examples
    --------
    >>> from qflow.labs.experiments import fanout_workload
    >>> graph = graph_of(Topology.of(fanout_workload(), 0))
    >>> sorted(graph.successors(("exchange", 0)))
    [('queue', 0), ('queue', 1), ('queue', 2)]
    """
    graph = nx.DiGraph()
    sizes = (topology.producers, topology.exchanges, topology.queues, topology.consumers)
    for kind, members in zip(KINDS, sizes, strict=True):
        graph.add_nodes_from((kind, index) for index in range(len(members)))
    for index, producer in enumerate(topology.producers):
        if producer.exchange >= 0:
            graph.add_edge(("producer", index), ("exchange", producer.exchange))
    for index, queue in topology.routes:
        if topology.producers[index].exchange < 0:
            graph.add_edge(("producer", index), ("queue", queue))
    graph.add_edges_from((("exchange", exchange), ("queue", queue)) for exchange, queue in topology.bindings)
    graph.add_edges_from(
        (("queue", consumer.queue), ("consumer", index)) for index, consumer in enumerate(topology.consumers)
    )
    return graph


def layout_of(topology: Topology) -> dict[str, list[int]]:
    """Order each column so that few lines cross.

    Parameters
    ----------
    topology
        Who takes part.

    Returns
    -------
    dict
        Kind to the indices of its members, from top to bottom.

    Examples
    --------
    >>> from qflow.labs.topology import ConsumerSpot, QueueSpot
    >>> crossed = (ConsumerSpot("a", 1, 1, "", "a::a"), ConsumerSpot("b", 0, 1, "", "b::b"))
    >>> layout_of(Topology((), (QueueSpot("q1"), QueueSpot("q2")), crossed, (), 0))["consumer"]
    [1, 0]
    """
    graph = graph_of(topology).to_undirected()
    order = {kind: [node for node in graph if node[0] == kind] for kind in KINDS}
    for number in range(ROUNDS):
        kinds = (
            ("exchange", "producer", "consumer", "queue")
            if number % 2
            else ("producer", "exchange", "consumer")
        )
        for kind in kinds:
            heights = _heights(order)
            order[kind].sort(key=lambda node: _pull(graph, node, heights))
    return {kind: [index for _, index in nodes] for kind, nodes in order.items()}


def _heights(order: dict[str, list[Node]]) -> dict[Node, float]:
    return {node: (place + 0.5) / len(nodes) for nodes in order.values() for place, node in enumerate(nodes)}


def _pull(graph: nx.Graph, node: Node, heights: dict[Node, float]) -> tuple[float, int]:
    """Return the mean height of a node's neighbours; its own where it has none."""
    near = [heights[other] for other in graph.neighbors(node)]
    return (sum(near) / len(near) if near else heights[node], node[1])


# One idea a file; the browser wants one module, whose last part is the widget itself.
SCRIPTS = (
    *("svg.js", "packing.js", "timeline.js", "spans.js", "track.js", "words.js", "glyphs.js"),
    *("tank.js", "cards.js", "links.js", "stage.js", "plot.js", "player.js", "transport.js"),
    *("why.js", "share.js", "sliders.js", "scene.js"),
)

STYLES = ("scene.css", "labs.css")


def read_static(*names: str) -> str:
    """Return files of the widget, one after the other."""
    folder = files("qflow.labs") / "static"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in names)


def payload_of(shown: Picture | Comparison) -> list[dict[str, object]]:
    """Return all that the browser needs of one picture or several.

    Parameters
    ----------
    shown
        What is to be drawn.

    Returns
    -------
    list of dict
        JSON but for ``numbers`` and ``spans``, which are bytes.
    """
    pictures = shown.pictures if isinstance(shown, Comparison) else {"": shown}
    return [
        {
            **picture.payload(),
            "name": name,
            "layout": layout_of(picture.frames.topology),
        }
        for name, picture in pictures.items()
    ]


class Scene(anywidget.AnyWidget):
    """Draws pictures and lets the learner move through them, backwards too.

    The browser is sent each run once, as numbers; it draws them and decides nothing.

    Parameters
    ----------
    picture
        What to draw first; None draws nothing yet.

    Attributes
    ----------
    run
        Number of the run that is drawn. It only grows: a run that took longer than a later one is
        never drawn over it.
    is_whole
        Whether that run has ended; if not, the picture shows its beginning, and the whole one follows.
    pictures
        What is drawn: see :func:`payload_of`.
    refusal
        Text of a banner above the picture; empty for none.
    running, progress
        Number of a run that takes long, and which part of it is done; 0 when none does.
    cancelled
        Number of the run that the learner does not want to wait for any more.
    answer
        To the last question why: see :func:`qflow.labs.lab.why`.
    place
        Where to go: ``time`` in microseconds, and how many steps ``back`` from the last of that time.
    actions
        What a fork can begin with: pairs of key and label.
    offers
        What else can be asked for: ``compare``, ``token``, ``html``; and ``pinned`` while comparing.
    token
        The last token asked for.
    is_live
        Whether anybody answers questions.
    cursor
        Microseconds of what is shown now, for charts beside the scene; it stays in the browser, and is -1
        here.
    """

    _esm = read_static(*SCRIPTS)
    _css = read_static(*STYLES)

    run = traitlets.Int(0).tag(sync=True)
    is_whole = traitlets.Bool(True).tag(sync=True)
    pictures = traitlets.List().tag(sync=True)
    refusal = traitlets.Unicode("").tag(sync=True)
    running = traitlets.Int(0).tag(sync=True)
    progress = traitlets.Float(0.0).tag(sync=True)
    cancelled = traitlets.Int(0).tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    place = traitlets.Dict().tag(sync=True)
    actions = traitlets.List().tag(sync=True)
    offers = traitlets.List().tag(sync=True)
    token = traitlets.Unicode("").tag(sync=True)
    is_live = traitlets.Bool(True).tag(sync=True)
    cursor = traitlets.Int(-1).tag(sync=True)

    def __init__(self, picture: Picture | Comparison | None = None) -> None:
        super().__init__()
        if picture is not None:
            self.show(picture, 1)

    def show(self, picture: Picture | Comparison, run: int, *, is_whole: bool = True) -> bool:
        """Draw a picture, unless a later run is drawn already, or this one as a whole.

        Parameters
        ----------
        picture
            What to draw.
        run
            Its number, counted by whoever starts runs.
        is_whole
            Whether the run has ended.

        Returns
        -------
        bool
            Whether it was drawn.
        """
        if run < self.run or (run == self.run and self.is_whole):
            return False
        with self.hold_sync():
            self.pictures = payload_of(picture)
            self.is_whole, self.run = is_whole, run
        return True

    @property
    def numbers(self) -> bytes:
        """The numbers of the first picture, as they are sent."""
        return bytes(self.pictures[0]["numbers"]) if self.pictures else b""

    def __repr__(self) -> str:
        counts = ", ".join(str(picture["count"]) for picture in self.pictures) or "0"
        return f"Scene(run={self.run}, frames={counts})"
