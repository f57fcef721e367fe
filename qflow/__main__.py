"""Run the ``qflow`` command as ``python -m qflow``."""

import sys

# In a checkout nothing else says so, and what is imported next does not load in an older Python.
if sys.version_info < (3, 11):  # noqa: UP036
    major, minor = sys.version_info[:2]
    sys.exit(f"qflow: this is Python {major}.{minor}; qflow needs 3.11 or newer.")

try:
    from qflow.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
