"""The live lab: a picture that follows a broker while it serves real clients.

A thread of its own polls the broker ten times a second, reduces the new events to frames of a thirtieth of a
second (:class:`qflow.labs.fold.Fold`), and sends the last two seconds of frames to the browser.  The browser
plays them with a delay, so that every mark can be seen moving.  Clients that connect or disconnect are added
to the frames at once (:meth:`qflow.labs.fold.Fold.renew`).  With more than six clients on a side, the clients
are listed in two lists and only the queues are drawn, so that thirty clients fit on one screen.

The lab slows the broker only by the time of this reduction.  The thread sends a picture only after the
browser has drawn the one before, so a hidden or slow page gets fewer pictures, each of them the newest; and
without a page the thread does nothing.

*Pause* makes a still picture of all events so far in the scene that all labs use, with every step and every
"why" question.

A running queue keeps its thresholds (FC-12).  Dragging a stop line therefore makes a new queue beside the old
one, and the picture explains that.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Event as Signal
from threading import Thread
from time import monotonic
from typing import Any, Self

from qflow.broker.events import EventTable
from qflow.kit import RefusalError
from qflow.labs.fold import Fold, channel_names
from qflow.labs.frames import NEVER, Spans
from qflow.labs.lab import Lab
from qflow.labs.picture import Comparison, Picture, picture_of
from qflow.labs.topology import (
    ConsumerSpot,
    ProducerSpot,
    QueueSpot,
    Topology,
    group_key,
    part_of,
    topology_of_events,
)
from qflow.workload import Run, Workload
from qflow.workload.agenda import SECOND

# Microseconds: of a frame, of all frames sent, of showing a disconnected client, and of the longest fold.
_GRAIN, _WINDOW, _LINGERS, _LATEST = 33_333, 2 * SECOND, 3 * SECOND, 2_000 * SECOND
_MOST_FRAMES = 2 * _WINDOW // _GRAIN
# Seconds between two polls, and after which the thread no longer waits for the browser's report.
_INTERVAL, _PATIENCE = 0.1, 1.0
_MOST_CLIENTS, _MOST_QUEUES, _MOST_ROWS = 6, 4, 1_500
# The most clients of a side in a still, and numbers in its frames; of a longer run only the end is shown.
_MOST_DRAWN, _MOST_NUMBERS = 8, 1_000_000

_FOLLOWS = "This picture follows the broker as it serves its clients; pause it to step back and to ask why."
_STOPPED = "The server has stopped. This is all that happened; broker.trace() has it for every other lab."


class LiveLab(Lab):
    """The live picture of a broker that serves real clients."""

    def __init__(self, serving: Any) -> None:
        if serving.server.events is None:
            raise RefusalError("this server keeps no events; serve with is_traced=True")
        self.serving = serving
        self.follower = _Follower(serving)
        self.note = ""
        self._is_paused = self._is_over = self._wants_still = False
        self._wanted, self._drawn, self._sent_at = Signal(), -1, 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()
        super().__init__(Comparison({}, (_FOLLOWS,)))
        self.scene.is_followed = True
        self._thread = Thread(target=self._follow, name="live lab", daemon=True)
        self._thread.start()

    # Requests from the scene

    def _answer(self, widget: object, content: dict[str, Any], buffers: object) -> None:
        try:
            match content.get("ask"):
                case "drawn":
                    # A page that displays the lab again starts at 0, but has drawn all pictures sent to it.
                    self._drawn = max(self._drawn, int(content["number"]))
                case "pause":
                    # Made in the lab's thread, as it may take a while and the kernel must stay responsive.
                    self._wants_still = True
                case "follow":
                    self.follow()
                case "stop":
                    self.serving.close()
                case "set":
                    self._declare(str(content["queue"]), int(content["value"]))
                case _:
                    super()._answer(widget, content, buffers)
            self._wanted.set()
        except Exception as error:  # a reader who only pressed a button is never shown a traceback
            self.scene.refusal = str(error)

    def pause(self) -> Self:
        """Show a still picture of the run until now, for stepping back and asking why; return the lab."""
        if not self._is_paused:
            still = self.follower.still()
            self._is_paused = True
            self.scene.refusal = ""
            self.show(still, self.scene.run + 1)
            self.scene.place = {"time": still.frames.at(-1)["time"], "back": 0, "number": self.scene.run}
            self.scene.is_followed = False
        return self

    def follow(self) -> Self:
        """Follow the broker again; return the lab."""
        if self._is_over:
            raise RefusalError("the server has stopped: there is nothing to follow any more")
        self._is_paused = False
        self.picture = Comparison({}, (_FOLLOWS,))
        self.show_claims(self.claims)
        self.scene.is_followed = True
        self._wanted.set()
        return self

    def _declare(self, queue: str, stop: int) -> None:
        """Declare a copy of a queue with another stop threshold, as a queue keeps its own (FC-12)."""
        made = self.serving.declare_like(queue, stop)
        self.note = (
            f"A queue keeps its thresholds as long as it lives (FC-12), so {queue} stays as it is. Your "
            f"line made {made}, a copy with its stop at {stop}. Let a client send to {made}."
        )

    # The thread

    def _follow(self) -> None:
        number = 0
        while not self._is_over:
            self._wanted.wait(_INTERVAL if self._drawn >= number else _PATIENCE)
            self._wanted.clear()
            if self.serving.has_ended:
                self._end()
                return
            if self._wants_still:
                self._make_still()
            if self._is_paused or not self._may_send(number):
                continue
            began = monotonic()
            try:
                content, numbers = self.follower.look()
            except Exception as error:  # it is shown in the lab: nothing above catches it
                self.scene.refusal = f"The picture cannot follow the broker any more: {error}"
                return
            number += 1
            self._sent_at = monotonic()
            self.scene.send({"live": {**content, "number": number, "note": self.note}}, buffers=[numbers])
            self._wanted.wait(max(0.0, _INTERVAL - (monotonic() - began)))

    def _make_still(self) -> None:
        self._wants_still = False
        try:
            self.pause()
        except Exception as error:  # it is shown in the lab: nothing above catches it
            self.scene.refusal = str(error)

    def _may_send(self, number: int) -> bool:
        """Return whether the browser has drawn the latest picture, or cannot report that it has."""
        if self._drawn >= number:
            return True
        if self._drawn < 0 or monotonic() - self._sent_at < _PATIENCE:
            return False
        # No report. While a cell runs, the kernel receives none, so pictures are sent without; a hidden page
        # sends none, so it gets no pictures.
        if self._loop is None:
            return False
        heard = Signal()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(heard.set)
        return not heard.wait(_INTERVAL)

    def _end(self) -> None:
        self._is_over = True
        if not self._is_paused:
            self._make_still()
        self.note = _STOPPED
        self.scene.send({"live": {"over": True, "note": self.note}})

    def close(self) -> None:
        """Free the lab's resources; the server continues to run."""
        self._is_over = True
        self._wanted.set()
        super().close()


class _Follower:
    """A poller of a running broker that makes the browser's pictures of it."""

    def __init__(self, serving: Any) -> None:
        self.serving = serving
        # Clients connected now or lately, the time each was last connected, and its most messages under way.
        self._clients: dict[str, dict[str, Any]] = {}
        self._last_seen: dict[str, int] = {}
        self._most: dict[str, int] = {}
        self._known: set[str] = set()
        self._is_crowd, self._base = False, 0
        self.fold = Fold(Topology((), (), (), (), 0), _GRAIN)

    def look(self) -> tuple[dict[str, Any], bytes]:
        """Return the broker's present state as plain values, and the numbers of its picture as bytes."""
        serving = self.serving
        with serving.lock:
            serving.server.advance_time()
            seen = serving.snapshot(len(serving.server.events))
            topology = self._topology(seen)
            self._renew(topology, seen["now"])
            events = list(serving.server.events.tuples(self.fold.seen))
        shown = {spot.name for spot in topology.queues}
        self.fold.add(_about(events, shown, self._base))
        self.fold.end()
        frames = self.fold.so_far(seen["now"] - self._base)
        lasting, every = _thin(frames.lasting)
        frames = replace(frames, lasting=lasting)
        run = Run(Workload("served", 1, {}), [], 0)
        payload = picture_of(run, frames=frames, room=max(1, seen["now"] - self._base)).payload()
        numbers = payload.pop("numbers")
        for spot in frames.topology.producers:
            most = max(frames.column(f"producer.{spot.name}.outstanding"))
            self._most[spot.name] = max(self._most[spot.name], most)
        assert isinstance(numbers, bytes)
        return {
            "picture": {**payload, "lanes": [], "every": every},
            "now": seen["now"] - self._base,
            "time": seen["now"],
            "is_crowd": self._is_crowd,
            "clients": list(self._clients.values()),
            "outcomes": seen["outcomes"],
            "incidents": seen["incidents"][-3:],
            "refusals": seen["refusals"][-3:],
            "url": serving.url,
        }, numbers

    def still(self) -> Picture:
        """Return a picture of the whole run, step by step, or of the last steps of a long run."""
        with self.serving.lock:
            events = list(self.serving.server.events)
            options = self.serving.broker.options
        run = Run(Workload("served", 1, {}, options=options), events, events[-1].time if events else 0)
        whole = topology_of_events(run)
        known = [spot.name for spot in whole.queues]
        names = [spot.name for spot in self.fold.topology.queues if spot.name in known]
        names = names or known[:_MOST_QUEUES]
        if not names:
            raise RefusalError("there is no queue yet, so there is nothing to draw")
        base = max(0, run.end - _LATEST)
        part = replace(part_of(whole, names), end=run.end - base)
        said, senders, readers = [], len(part.producers), len(part.consumers)
        if senders > _MOST_DRAWN:
            said.append(f"{senders} clients that send are too many to draw; their messages are here.")
            part = replace(part, producers=(), routes=())
        if readers > _MOST_DRAWN:
            said.append(f"{readers} clients that receive are too many to draw.")
            part = replace(part, consumers=())
        folding = Fold(part)
        folding.add(_about(EventTable(events).tuples(), set(names), base))
        folding.end()
        most = _MOST_NUMBERS // len(channel_names(part))
        frames = folding.so_far(part.end)
        if folding.count > most:
            frames = folding.renew(part, folding.count - most).so_far(part.end)
            said.append(f"These are the last {frames.count:,} of {folding.count:,} steps.")
        picture = picture_of(replace(run, end=part.end), frames=frames)
        return replace(picture, claims=(*said, *picture.claims))

    # Displayed clients and queues

    def _topology(self, seen: Mapping[str, Any]) -> Topology:
        now = seen["now"]
        here = {client["name"]: {**client, "is_gone": False} for client in seen["clients"]}
        lately = (self._last_seen | dict.fromkeys(here, now)).items()
        self._last_seen = {name: time for name, time in lately if now - time <= _LINGERS}
        self._clients = {
            name: here.get(name) or {**self._clients[name], "is_gone": True} for name in self._last_seen
        }
        queues = self._queues(seen)
        names = [queue.name for queue in queues]
        producers, consumers = self._spots(names)
        self._is_crowd = max(len(producers), len(consumers)) > _MOST_CLIENTS
        if self._is_crowd:
            producers, consumers = (), ()
        broker = self.serving.broker
        arguments = [broker.queues.queues[name].settings.arguments for name in names]
        return Topology(producers, queues, consumers, (), now, group_key=group_key(arguments))

    def _queues(self, seen: Mapping[str, Any]) -> tuple[QueueSpot, ...]:
        """Return the queues to display, used ones first; clients' own reply queues are left out."""
        found = self.serving.broker.queues.queues
        used = {link["node"] for client in seen["clients"] for link in client["links"]}
        lasting = [name for name, queue in found.items() if not queue.lifetime.owner]
        chosen = sorted(lasting, key=lambda name: name not in used)[:_MOST_QUEUES]
        options = self.serving.broker.options
        return tuple(
            QueueSpot.of(name, found[name].settings.arguments, options) for name in lasting if name in chosen
        )

    def _spots(self, queues: list[str]) -> tuple[tuple[ProducerSpot, ...], tuple[ConsumerSpot, ...]]:
        """Return the producers and the consumers to display, each with its most messages under way."""
        producers, consumers = {}, {}
        for client in self._clients.values():
            who = ", ".join(filter(None, (client["product"], client["address"])))
            for link in client["links"]:
                node, name = link["node"], link["session"]
                if link["role"] == "sender":
                    if node in queues or not node.startswith("qmf."):
                        most = self._most[name] = max(self._most.get(name, 1), link["unsettled"])
                        producers[name] = ProducerSpot(name, most, who, name, -1, True)
                elif node in queues:
                    full = f"{name}::{link['name']}"
                    held = link["unsettled"] + min(link["credit"], 1_000)
                    most = self._most[full] = max(self._most.get(full, 1), held)
                    name = full if client["name"] in consumers else client["name"]
                    consumers[name] = ConsumerSpot(name, queues.index(node), most, who, full)
        return tuple(producers.values()), tuple(consumers.values())

    # The fold

    def _renew(self, topology: Topology, now: int) -> None:
        """Continue the frames with the given clients and queues, or restart them if that is necessary."""
        old = self.fold.topology
        names, known = (
            {f"> {spot.name}" for spot in of.producers} | {spot.name for spot in of.queues}
            for of in (topology, old)
        )
        added = names - known
        if added & self._known or now - self._base > _LATEST:
            # A client or queue is displayed again: its events since then have to be counted, so start again.
            self._base = max(0, now - _LATEST // 2)
            self.fold = Fold(topology, _GRAIN)
        elif replace(topology, end=old.end, routes=old.routes) != old or self.fold.count > _MOST_FRAMES:
            first = self.fold.so_far(0).index_at(max(0, now - self._base - _WINDOW))
            self.fold = self.fold.renew(topology, first)
        self._known |= names


def _about(events: Iterable[tuple[Any, ...]], queues: set[str], base: int) -> list[Any]:
    """Return the cells of events, with times counted from `base`; other queues' events become empty ones."""
    cells: list[Any] = []
    for time, kind, queue, *rest in events:
        cells += (max(0, time - base), kind if not queue or queue in queues else "", queue, *rest)
    return cells


def _thin(lasting: Mapping[str, Spans]) -> tuple[dict[str, Spans], int]:
    """Return lasting rows, thinned out if there are too many, and the interval of the kept ones."""
    most = max((len(table) for table in lasting.values()), default=0)
    every = -(-most // _MOST_ROWS)
    if every <= 1:
        return dict(lasting), 1
    kept: dict[str, Spans] = {}
    places: dict[int, int] = {}
    for name, table in lasting.items():
        rows = _rows(name, table, every, places)
        if name == "stays":
            places = {row: place for place, row in enumerate(rows)}
        data = {column: [table.column(column)[row] for row in rows] for column in table.columns}
        if name == "holdings":
            data["stay"] = [places.get(stay, -1) for stay in data["stay"]]
        kept[name] = Spans(table.columns, [array("i", numbers) for numbers in data.values()])
    return kept, every


def _rows(name: str, table: Spans, every: int, stays: Mapping[int, int]) -> list[int]:
    """Return the indices of the rows to keep: the latest unended ones, and a sample of the ended ones."""
    ends = table.column("end").tolist()
    alive = [row for row, end in enumerate(ends) if end == NEVER][-_MOST_ROWS:]
    if name == "locks":
        return list(range(len(table)))
    if name == "holdings":
        chosen = [stay in stays for stay in table.column("stay")]
    else:
        chosen = [not number % every for number in table.column("number")]
    over = [row for row, is_chosen in enumerate(chosen) if is_chosen and ends[row] != NEVER]
    return sorted({*alive, *over[-_MOST_ROWS:]})
