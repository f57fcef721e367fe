"""ServerMetrics: a server's queue and connection statistics in OpenMetrics format, for Prometheus.

``qflow serve --metrics PORT`` answers ``GET /metrics`` on a port and in threads of its own, with the library
prometheus-client.  A scrape holds the broker's lock only while it reads the statistics, so that a slow reader
of the answer delays nobody.

The metrics are the broker's own statistics under names that follow OpenMetrics: ``flowStoppedCount`` is
``qflow_queue_flow_stopped_count_total``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from qflow.broker.queue import Queue
from qflow.live.server import Server

_GAUGES: tuple[tuple[str, str, Callable[[Queue], float]], ...] = (
    ("depth", "Messages, acquired ones included", lambda queue: queue.message_depth),
    ("bytes", "Bytes of the messages", lambda queue: queue.byte_depth),
    ("flow_stopped", "1 while flow control is ON", lambda queue: queue.statistics().flowStopped),
    # A queue without thresholds has no flow limit.
    ("held", "Transfers with a withheld outcome", lambda queue: len(getattr(queue.flow_limit, "held", ()))),
)
_COUNTERS: tuple[tuple[str, str, Callable[[Queue], float]], ...] = (
    ("flow_stopped_count", "Times that flow control turned ON", lambda q: q.statistics().flowStoppedCount),
    ("enqueues", "Messages enqueued", lambda queue: queue.counters.msgTotalEnqueues),
    ("dequeues", "Messages dequeued", lambda queue: queue.counters.msgTotalDequeues),
)


class _ServerMetrics:
    """A prometheus-client collector for one server; each scrape calls it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Any]:
        """Yield the metric families, all read at one instant."""
        # A list, so that the lock is released before the text is made and written.
        with self._server.lock:
            families = [*self._collect_queues(), *self._collect_server()]
        yield from families

    def _collect_queues(self) -> Iterator[Any]:
        family: Any
        for family, metrics in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
            for name, words, measure in metrics:
                made = family(f"qflow_queue_{name}", words, labels=["queue"])
                for queue in self._server.broker.queues.queues.values():
                    made.add_metric([queue.name], float(measure(queue)))
                yield made

    def _collect_server(self) -> Iterator[Any]:
        server = self._server
        yield GaugeMetricFamily("qflow_connections", "Clients connected", len(server.peers()))
        yield GaugeMetricFamily("qflow_memory_bytes", "Bytes kept for clients and queues", server.held)
        made = CounterMetricFamily("qflow_transfers", "Transfers by their outcome", labels=["outcome"])
        for outcome, count in sorted(server.outcomes().items()):
            made.add_metric([outcome], count)
        yield made


def start_metrics(server: Server, host: str, port: int) -> Callable[[], None]:
    """Serve a server's metrics on a port; return a function that stops serving them."""
    # Not the library's default registry, which also reports on this process and its garbage collector.
    registry = CollectorRegistry()
    registry.register(_ServerMetrics(server))
    http, thread = start_http_server(port, host, registry)

    def stop() -> None:
        http.shutdown()
        http.server_close()
        thread.join()

    return stop
