"""Teaching: finding, laying out, building and opening the chapters; predictions, exercises, progress."""

from qflow.teaching.checks import check, hint
from qflow.teaching.learner import show_progress
from qflow.teaching.predictions import Predictions

__all__ = ["Predictions", "check", "hint", "show_progress"]
