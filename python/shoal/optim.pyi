from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from .comm import Communicator

_Arrays = Mapping[str, Any] | Sequence[Any]
_Groups = Iterable[Mapping[str, Any]]
_Masters = Literal["fp32", "none"]

def learning_rate(update: int, *, type: Literal["cosine", "linear", "wsd", "constant"] = "cosine", lr: float = 1e-3,
                  min_lr: float = 0.0, warmup: int = 0, steps: int, decay_fraction: float = 0.1) -> float: ...
def clip_factor(norm: float, max_norm: float) -> float: ...

class StepResult(NamedTuple):
    grad_norm: float
    skipped: bool

class _Optimizer:
    lr: float
    def step(self, grads: _Arrays | None = None, *, lr: float | None = None, loss_scale: float = 1.0,
             max_norm: float = 0.0, average: bool = False, seed: int = 0) -> StepResult: ...
    @property
    def applied(self) -> int: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

class AdamW(_Optimizer):
    def __init__(self, params: _Arrays, lr: float = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.01, master_weights: _Masters = "fp32",
                 groups: _Groups = (), group: Communicator | None = None) -> None: ...

class Adam(_Optimizer):
    def __init__(self, params: _Arrays, lr: float = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, master_weights: _Masters = "fp32",
                 groups: _Groups = (), group: Communicator | None = None) -> None: ...

class SGD(_Optimizer):
    def __init__(self, params: _Arrays, lr: float = 1e-3, *, momentum: float = 0.0, nesterov: bool = False,
                 weight_decay: float = 0.0, master_weights: _Masters = "fp32", groups: _Groups = (),
                 group: Communicator | None = None) -> None: ...

class Lion(_Optimizer):
    def __init__(self, params: _Arrays, lr: float = 1e-4, *, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, master_weights: _Masters = "fp32", groups: _Groups = (),
                 group: Communicator | None = None) -> None: ...

class LAMB(_Optimizer):
    def __init__(self, params: _Arrays, lr: float = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-6, weight_decay: float = 0.01, master_weights: _Masters = "fp32",
                 groups: _Groups = (), group: Communicator | None = None) -> None: ...

class Adafactor(_Optimizer):
    def __init__(self, params: _Arrays, lr: float = 1e-2, *, decay_rate: float = 0.8, clip_threshold: float = 1.0,
                 scale_parameter: bool = False, weight_decay: float = 0.0, master_weights: _Masters = "fp32",
                 groups: _Groups = (), group: Communicator | None = None) -> None: ...

class Muon(_Optimizer):
    def __init__(self, params: _Arrays, lr: float = 1e-3, *, momentum: float = 0.95, newton_schulz_steps: int = 5,
                 muon_scale: Literal["match_rms_adamw", "original"] = "match_rms_adamw",
                 betas: tuple[float, float] = (0.9, 0.95), eps: float = 1e-8, weight_decay: float = 0.1,
                 master_weights: _Masters = "fp32", groups: _Groups = (), group: Communicator | None = None) -> None: ...

class GradScaler:
    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True, *, hysteresis: int = 1, min_scale: float = 1.0,
                 give_up: int = 4, dynamic: bool = True) -> None: ...
    def get_scale(self) -> float: ...
    def scale(self, x: Any) -> Any: ...
    def update(self, skipped: bool) -> None: ...
    @property
    def exhausted(self) -> bool: ...
    def state_dict(self) -> dict[str, float]: ...
    def load_state_dict(self, state: Mapping[str, float]) -> None: ...
