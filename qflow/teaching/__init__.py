"""Teaching: finding, laying out, building and opening the chapters; predictions, exercises, progress."""

from qflow.teaching.checks import check
from qflow.teaching.hints import hint
from qflow.teaching.predictions import Predictions
from qflow.teaching.report import show_progress

__all__ = ["Predictions", "check", "hint", "show_progress"]
