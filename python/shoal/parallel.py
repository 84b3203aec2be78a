"""Data parallelism over a model of the caller's: gradients are reduced in buckets while backward goes on.

    parallel = shoal.parallel.DataParallel(model, shoal.comm.world(), zero=1)
    loss, grad_norm = parallel.step(tokens, targets, lr=1e-3)     # each rank gives its own samples"""
from ._core import DataParallel

__all__ = ["DataParallel"]
