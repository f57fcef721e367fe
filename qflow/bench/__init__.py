"""qflow bench: how fast the engine is on this machine, and beside whom.

The workloads are in ``workloads.py`` and shared with ``tests/benchmarks``; ``peers.py`` runs the same
under SimPy and Ciw where these are installed.
"""
