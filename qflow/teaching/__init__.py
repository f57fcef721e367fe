"""Teaching: finding, laying out, building and opening the chapters; predictions, exercises, progress."""

from qflow.teaching.predictions import Predictions

__all__ = ["Predictions"]
