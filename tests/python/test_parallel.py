"""shoal.parallel and shoal.optim; for any number of ranks, as test_comm.py."""
import math

import numpy as np
import pytest
import shoal
import shoal.comm as comm
from shoal.models import Model
from shoal.optim import clip_factor, learning_rate

SIZES = {"layers": 2, "hidden": 32, "heads": 4, "vocab": 61, "seq": 16}


@pytest.fixture(scope="module", autouse=True)
def world():
    return comm.init()


def batches(steps):
    """Whole global batches of two samples a rank, the same on every rank."""
    rng = np.random.default_rng(7)
    for _ in range(steps):
        ids = rng.integers(0, 61, (2 * comm.world_size(), 17), dtype=np.int32)
        targets = np.ascontiguousarray(ids[:, 1:])
        targets[0, 3:] = -1  # rank 0 has fewer valid tokens: a mean of means would differ
        yield np.ascontiguousarray(ids[:, :-1]), targets


def mine(array):
    return array[2 * comm.rank():2 * comm.rank() + 2]


@pytest.mark.parametrize("zero", [0, 1])
def test_a_step_is_that_of_the_whole_batch_on_one_rank(world, zero):
    alone = shoal.parallel.DataParallel(model_1 := Model("gpt", **SIZES), shoal._core.make_self())
    # Every rank's initial values are rank 0's.
    together = shoal.parallel.DataParallel(model_n := Model("gpt", **SIZES, seed=1 + comm.rank()), world, zero=zero)
    for tokens, targets in batches(4):
        loss_1, norm_1 = alone.step(tokens, targets, lr=1e-3)
        loss_n, norm_n = together.step(mine(tokens), mine(targets), lr=1e-3)
        assert loss_n == pytest.approx(loss_1, rel=1e-6)
        assert norm_n == pytest.approx(norm_1, rel=1e-4)
    assert together.applied == 4
    for name, p in model_n.parameters.items():
        np.testing.assert_allclose(p, model_1.parameters[name], rtol=0, atol=5e-4)
        everywhere = comm.all_gather(p)
        assert (everywhere == everywhere[0]).all(), name


def test_weight_decay_alone():
    """With nothing to learn from, weight decay 0.1 and lr 1: matrices are multiplied by 0.9, norms and biases stay."""
    model = Model("gpt", **SIZES)
    before = model.parameters
    step = shoal.parallel.DataParallel(model, comm.world(), weight_decay=0.1)
    tokens, targets = next(batches(1))
    loss, norm = step.step(mine(tokens), np.full_like(mine(targets), -1), lr=1.0)
    assert loss == norm == 0
    changed = 0
    for name, p in model.parameters.items():
        if (p == before[name]).all():
            continue
        changed += 1
        np.testing.assert_allclose(p, before[name] * np.float32(0.9), rtol=1e-6, err_msg=name)
        assert p.ndim == 2 and "norm" not in name
    assert changed >= 4 * SIZES["layers"]


def test_schedule_and_clipping():
    cosine = {"lr": 1.0, "min_lr": 0.1, "warmup": 10, "steps": 110}
    assert learning_rate(0, **cosine) == 0.1 and learning_rate(9, **cosine) == 1.0
    assert learning_rate(60, **cosine) == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2)
    assert learning_rate(110, **cosine) == pytest.approx(0.1)
    with pytest.raises(shoal.ConfigError):
        learning_rate(0, type="steps", steps=10)
    assert clip_factor(0.5, 1.0) == 1.0 and clip_factor(4.0, 0.0) == 1.0
    assert clip_factor(4.0, 1.0) == pytest.approx(0.25, rel=1e-6)
