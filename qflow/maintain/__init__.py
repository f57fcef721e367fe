"""What maintainers run, as ``python -m qflow.maintain COMMAND`` in a checkout; none of it is in the wheel."""

from pathlib import Path

from qflow.kit import RefusalError, checkout_root


def checkout() -> Path:
    """Return the top of the checkout that is maintained; refuse where there is none."""
    root = checkout_root()
    if root is None:
        raise RefusalError("What maintainers run needs a checkout of qflow; run this command in one.")
    return root
