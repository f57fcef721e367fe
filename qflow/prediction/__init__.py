"""Prediction: what a broker would have done with the recorded clients, as they were set up or otherwise."""

from qflow.prediction.changes import Settings
from qflow.prediction.predict import predict

__all__ = ["Settings", "predict"]
