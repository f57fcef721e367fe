"""Teaching: predictions, exercises and their checks, the learner's progress, recordings beside the model."""

from qflow.teaching.checking import check, hint, show_progress
from qflow.teaching.predictions import Predictions

__all__ = ["Predictions", "check", "hint", "show_progress"]
