"""Optimizers over arrays of your own, a gradient scaler, learning-rate schedules and clipping.

    weights = {"w": w, "b": b}                       # NumPy arrays, or torch tensors: they are updated in place
    adam = shoal.optim.AdamW(weights, lr=1e-3)
    norm, skipped = adam.step({"w": dw, "b": db}, max_norm=1.0)

Values are float32, float16 or bfloat16 (torch's, through DLPack), all of one type, on the host and contiguous.
Gradients are of the values' type or float32. Values of 16 bits have float32 masters in the optimizer, or, with
master_weights="none", are rounded stochastically. With group=shoal.comm.world() the gradients of all ranks are summed
first (average=True: averaged); ranks whose lists differ are refused before any value travels."""
from collections.abc import Mapping
from typing import NamedTuple

from . import _core
from ._core import clip_factor, learning_rate
from .errors import ConfigError

__all__ = ["Adafactor", "Adam", "AdamW", "GradScaler", "LAMB", "Lion", "Muon", "SGD", "StepResult", "clip_factor",
           "learning_rate"]


def _array(x):
    return x.detach() if hasattr(x, "detach") else x  # a torch parameter, which would not be exported


def _named(arrays):
    pairs = arrays.items() if isinstance(arrays, Mapping) else ((str(i), x) for i, x in enumerate(arrays))
    return [(str(name), _array(x)) for name, x in pairs]


class StepResult(NamedTuple):
    """grad_norm: of the gradients summed over the ranks and divided by loss_scale, before clipping.
    skipped: it was not finite, and nothing has moved."""
    grad_norm: float
    skipped: bool


class _Optimizer:
    _type = ""

    def __init__(self, params, lr, options, groups, group):
        self.lr = lr
        self._params = dict(params) if isinstance(params, Mapping) else list(params)
        self._core = _core.TensorOptimizer(self._type, _named(self._params), group, options, list(groups))

    def step(self, grads=None, *, lr=None, loss_scale=1.0, max_norm=0.0, average=False, seed=0):
        """One update. grads: a mapping or sequence like the parameters; None: their .grad (torch). Waits for the
        result, and is collective over the group. Raises shoal.ShapeError naming a gradient that does not fit."""
        if grads is None:
            pairs = self._params.items() if isinstance(self._params, Mapping) else enumerate(self._params)
            grads = {str(name): p.grad for name, p in pairs if getattr(p, "grad", None) is not None}
        elif not isinstance(grads, Mapping):
            grads = {str(i): g for i, g in enumerate(grads)}
        elif isinstance(self._params, Mapping):  # in the order of the values
            known = [name for name in self._params if name in grads]
            grads = {name: grads[name] for name in known + [n for n in grads if n not in self._params]}
        norm, skipped = self._core.step(_named(grads), self.lr if lr is None else lr, loss_scale, max_norm, average,
                                        seed)
        return StepResult(norm, skipped)

    @property
    def applied(self):
        """Updates so far, skipped ones not counted."""
        return self._core.applied

    def state_dict(self):
        """{"type", "applied", "lr", "state": {name: {kind: float32 array}}}; the arrays are copies."""
        state = {}
        for name, kind, array in self._core.state():
            state.setdefault(name, {})[kind] = array
        return {"type": self._type, "applied": self.applied, "lr": self.lr, "state": state}

    def load_state_dict(self, state):
        """Raises shoal.ConfigError naming what is missing, not expected, or of another shape; nothing is changed
        then."""
        if state["type"] != self._type:
            raise ConfigError(f"the state of {state['type']} for {self._type}")
        self._core.load_state(state["applied"], [(name, kind, _array(array)) for name, kinds in state["state"].items()
                                                 for kind, array in kinds.items()])
        self.lr = state["lr"]


class AdamW(_Optimizer):
    """Adam with decoupled weight decay (Loshchilov, Hutter 2019)."""
    _type = "adamw"

    def __init__(self, params, lr=1e-3, *, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, master_weights="fp32",
                 groups=(), group=None):
        super().__init__(params, lr, dict(betas=betas, eps=eps, weight_decay=weight_decay,
                                          master_weights=master_weights), groups, group)


class Adam(_Optimizer):
    """Adam (Kingma, Ba 2015); weight decay is added to the gradient."""
    _type = "adam"

    def __init__(self, params, lr=1e-3, *, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, master_weights="fp32",
                 groups=(), group=None):
        super().__init__(params, lr, dict(betas=betas, eps=eps, weight_decay=weight_decay,
                                          master_weights=master_weights), groups, group)


class SGD(_Optimizer):
    """Stochastic gradient descent, with momentum and Nesterov's (as torch.optim.SGD)."""
    _type = "sgd"

    def __init__(self, params, lr=1e-3, *, momentum=0.0, nesterov=False, weight_decay=0.0, master_weights="fp32",
                 groups=(), group=None):
        super().__init__(params, lr, dict(momentum=momentum, nesterov=nesterov, weight_decay=weight_decay,
                                          master_weights=master_weights), groups, group)


class Lion(_Optimizer):
    """Lion (Chen et al. 2023)."""
    _type = "lion"

    def __init__(self, params, lr=1e-4, *, betas=(0.9, 0.99), weight_decay=0.0, master_weights="fp32", groups=(),
                 group=None):
        super().__init__(params, lr, dict(betas=betas, weight_decay=weight_decay, master_weights=master_weights),
                         groups, group)


class LAMB(_Optimizer):
    """LAMB (You et al. 2020): Adam's direction, scaled to each tensor's norm."""
    _type = "lamb"

    def __init__(self, params, lr=1e-3, *, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, master_weights="fp32",
                 groups=(), group=None):
        super().__init__(params, lr, dict(betas=betas, eps=eps, weight_decay=weight_decay,
                                          master_weights=master_weights), groups, group)


class Adafactor(_Optimizer):
    """Adafactor (Shazeer, Stern 2018): of a matrix, only sums over rows and columns are kept. With scale_parameter the
    rate is relative to the root mean square of a tensor."""
    _type = "adafactor"

    def __init__(self, params, lr=1e-2, *, decay_rate=0.8, clip_threshold=1.0, scale_parameter=False,
                 weight_decay=0.0, master_weights="fp32", groups=(), group=None):
        super().__init__(params, lr, dict(decay_rate=decay_rate, clip_threshold=clip_threshold,
                                          scale_parameter=scale_parameter, weight_decay=weight_decay,
                                          master_weights=master_weights), groups, group)


class Muon(_Optimizer):
    """Muon (Jordan et al. 2024) for arrays of two or more dimensions, AdamW for the others, and for those of rules
    with muon=False. muon_scale: "match_rms_adamw", so that rates and decay are AdamW's, or "original"."""
    _type = "muon"

    def __init__(self, params, lr=1e-3, *, momentum=0.95, newton_schulz_steps=5, muon_scale="match_rms_adamw",
                 betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, master_weights="fp32", groups=(), group=None):
        super().__init__(params, lr, dict(momentum=momentum, newton_schulz_steps=newton_schulz_steps,
                                          muon_scale=muon_scale, betas=betas, eps=eps, weight_decay=weight_decay,
                                          master_weights=master_weights), groups, group)


class GradScaler:
    """A dynamic loss scale for float16, as torch.amp.GradScaler's: it grows by growth_factor after growth_interval
    steps in a row without an overflow, and shrinks by backoff_factor at the hysteresis-th overflow since.

        loss = scaler.scale(loss); ... backward ...
        norm, skipped = optimizer.step(grads, loss_scale=scaler.get_scale())
        scaler.update(skipped)"""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000,
                 enabled=True, *, hysteresis=1, min_scale=1.0, give_up=4, dynamic=True):
        mode = "off" if not enabled else "dynamic" if dynamic else "static"
        self._core = _core.GradScaler(mode, init_scale, growth_factor, backoff_factor, growth_interval, hysteresis,
                                      min_scale, give_up)

    def get_scale(self):
        """The factor of the next step; 1.0 when not enabled."""
        return self._core.value

    def scale(self, x):
        """x (a number, an array, a tensor) times the factor."""
        return x * self._core.value

    def update(self, skipped):
        """After each step: whether its gradients overflowed. The same on every rank."""
        self._core.update(bool(skipped))

    @property
    def exhausted(self):
        """give_up overflows in a row at the least factor."""
        return self._core.exhausted

    def state_dict(self):
        scale, clean, patience, hopeless = self._core.state()
        return {"scale": scale, "growth_tracker": clean, "patience": patience, "hopeless": hopeless}

    def load_state_dict(self, state):
        self._core.set_state(state["scale"], state["growth_tracker"], state["patience"], state["hopeless"])
