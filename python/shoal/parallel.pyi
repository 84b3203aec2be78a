from typing import Any, Literal, Tuple

from .comm import Communicator
from .models import Model

class DataParallel:
    def __init__(self, model: Model, group: Communicator, *, zero: int = 0, optimizer: Literal["adamw", "sgd"] = "adamw",
                 betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, momentum: float = 0.9,
                 weight_decay: float = 0.1) -> None: ...
    @property
    def applied(self) -> int: ...
    def step(self, tokens: Any, targets: Any, lr: float, clip: float = 1.0) -> Tuple[float, float]: ...
