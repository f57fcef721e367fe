"""Checkpoints: the state of a broker at an instant, kept so that it is quickly there again.

A snapshot (:meth:`qflow.broker.Broker.snapshot`) is JSON, for files and other machines. These live
only as long as their timeline and are restored hundreds of times, so they are packed by pickle, which
is about three times as fast. Both keep the same fields; the tests hold them to the same state hash.
"""

from __future__ import annotations

import copyreg
import io
import pickle

from qflow.broker.broker import Broker
from qflow.broker.selector import Selector
from qflow.workload.stage import uncollected


class Checkpoint:
    """A broker's state, from which any number of brokers can be made.

    Parameters
    ----------
    broker : Broker
        Between two commands; its observer is no part of the state, and clients' hooks must be unset.

    Examples
    --------
    >>> broker = Broker()
    >>> broker.session("s").queue_declare("q")
    >>> twin = Checkpoint(broker).restore()
    >>> twin.state_hash() == broker.state_hash(), twin.observer
    (True, None)
    """

    __slots__ = ("_packed",)

    def __init__(self, broker: Broker) -> None:
        packed = io.BytesIO()
        pickler = pickle.Pickler(packed, pickle.HIGHEST_PROTOCOL)
        # A selector holds a compiled function, which is made again from its text.
        pickler.dispatch_table = copyreg.dispatch_table.copy()
        pickler.dispatch_table[Selector] = _reduced_selector
        observer = broker.observer
        broker.observe(None)
        try:
            pickler.dump(broker)
        finally:
            broker.observe(observer)
        self._packed = packed.getvalue()

    def restore(self) -> Broker:
        """Return a new broker in that state, without an observer."""
        with uncollected():
            broker: Broker = pickle.loads(self._packed)
        return broker

    @property
    def size(self) -> int:
        """Bytes it takes."""
        return len(self._packed)


def _reduced_selector(selector: Selector) -> tuple[type[Selector], tuple[str]]:
    return Selector, (selector.expression,)
