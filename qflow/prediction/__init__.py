"""Prediction: what a broker would have done with the recorded clients, as they were set up or otherwise."""

from qflow.prediction.predict import predict
from qflow.prediction.settings import Settings

__all__ = ["Settings", "predict"]
