"""Run the ``qflow`` command as ``python -m qflow``."""

import sys

from qflow.cli import main

if __name__ == "__main__":
    sys.exit(main())
