"""Run the ``qflow`` command as ``python -m qflow``."""

import sys

# pip checks the Python version of an installed qflow, but nothing checks it in a checkout, and the modules
# imported below do not load in an older Python.
if sys.version_info < (3, 11):  # noqa: UP036
    major, minor = sys.version_info[:2]
    sys.exit(f"qflow: this is Python {major}.{minor}; qflow needs 3.11 or newer.")

try:
    from qflow.cli import main
except KeyboardInterrupt:
    sys.exit(130)

if __name__ == "__main__":
    sys.exit(main())
