"""qflow: a message broker you can hold in your hand.

A small, exact, deterministic engine that models Apache Qpid's C++ broker: what a queue does when producers
are faster than consumers (producer flow control), step by step, so that every step can be watched, rewound,
questioned and replayed.

Importing this package loads the standard library only. The rooms are imported by name when they are used:
:mod:`qflow.broker` is the engine, :mod:`qflow.conformance` lays it beside recordings of a real broker,
:mod:`qflow.workload` drives it in virtual time, :mod:`qflow.labs` draws it.

Examples
--------
>>> import qflow
>>> qflow.__version__
'0.1.0'
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
