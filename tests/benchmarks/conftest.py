"""Scripts that need what only an extra brings are not looked through for examples."""

from importlib.util import find_spec

collect_ignore = ["tap_cost.py"] if find_spec("proton") is None else []
