"""Learning-rate schedules and clipping, as functions of numbers."""
from ._core import clip_factor, learning_rate

__all__ = ["clip_factor", "learning_rate"]
