"""shoal.optim over arrays of the caller's own."""
import threading

import numpy as np
import pytest
import shoal
import shoal.comm as comm
from shoal import optim

SHAPES = {"w": (17, 33), "b": (17,), "scalar": (1,), "conv": (3, 4, 5)}


def arrays(seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in SHAPES.items()}


def all_optimizers(params, **more):
    return [kind(params() if callable(params) else params, **more) for kind in
            (optim.AdamW, optim.Adam, optim.SGD, optim.Lion, optim.LAMB, optim.Adafactor, optim.Muon)]


def test_every_optimizer_moves_the_callers_own_memory_down():
    for dtype in (np.float32, np.float16):
        for opt in all_optimizers(lambda: arrays(1, dtype)):
            params = opt._params
            before = {k: v.copy() for k, v in params.items()}
            for _ in range(3):  # the gradient of sum(x^2) / 2
                result = opt.step({k: v.copy() for k, v in params.items()})
                assert not result.skipped
            assert opt.applied == 3
            for k in params:
                if type(opt) is optim.SGD and dtype == np.float16:
                    continue  # steps of 1e-3 may be below half a unit
                assert np.sum(params[k].astype(float) ** 2) < np.sum(before[k].astype(float) ** 2), (type(opt), k)


def test_follow_torch():
    torch = pytest.importorskip("torch")
    pairs = [
        (optim.AdamW, torch.optim.AdamW, dict(betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
        (optim.Adam, torch.optim.Adam, dict(betas=(0.9, 0.99), weight_decay=0.05)),
        (optim.SGD, torch.optim.SGD, dict(momentum=0.9, nesterov=True, weight_decay=0.01)),
        (optim.SGD, torch.optim.SGD, dict(momentum=0.5)),
        (optim.SGD, torch.optim.SGD, dict()),
    ]
    for ours, theirs, options in pairs:
        mine = {k: torch.tensor(v) for k, v in arrays(3).items()}
        reference = {k: torch.nn.Parameter(torch.tensor(v, dtype=torch.float64)) for k, v in arrays(3).items()}
        a = ours(mine, lr=0.01, **options)
        b = theirs(reference.values(), lr=0.01, **options)
        for step in range(10):
            grads = arrays(100 + step)
            a.step(grads)
            for k, p in reference.items():
                p.grad = torch.tensor(grads[k], dtype=torch.float64)
            b.step()
        for k in mine:
            error = (mine[k].double() - reference[k].detach()).norm() / reference[k].detach().norm()
            assert error < 1e-6, (ours, options, k, error)


def test_torch_parameters_and_their_gradients():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        layer = torch.nn.Linear(8, 4).to(dtype)
        before = layer.weight.detach().clone()
        opt = optim.AdamW(dict(layer.named_parameters()), lr=0.1)
        sum((p.float() ** 2).sum() for p in layer.parameters()).backward()
        result = opt.step()
        assert not result.skipped and result.grad_norm > 0
        assert not torch.equal(before, layer.weight.detach())


def test_masters_keep_what_sixteen_bits_lose():
    torch = pytest.importorskip("torch")
    ones = lambda: {"w": torch.ones(64, 64, dtype=torch.bfloat16)}
    up = {"w": torch.full((64, 64), -(2.0**-12))}
    with_masters, plain, drawn = ones(), ones(), ones()
    a = optim.SGD(with_masters, lr=1.0)
    b = optim.SGD(drawn, lr=1.0, master_weights="none")
    for _ in range(256):
        a.step(up)
        b.step(up, seed=3)
        plain["w"] -= up["w"].to(torch.bfloat16)
    assert torch.all(with_masters["w"] == 1.0625)
    assert torch.all(plain["w"] == 1.0)
    mean, error = drawn["w"].double().mean(), drawn["w"].double().std() / 64
    assert abs(mean - 1.0625) < 4 * error


def test_values_changed_from_outside_are_taken():
    params = {"w": np.ones(300, np.float16), "v": np.ones(5, np.float16)}
    opt = optim.SGD(params, lr=1.0)
    params["w"][:] = 8
    opt.step({k: np.full(v.shape, 0.5, np.float32) for k, v in params.items()})
    assert np.all(params["w"] == 7.5) and np.all(params["v"] == 0.5)


def test_clipping_scaling_and_overflow():
    params = {"w": np.zeros(4, np.float32)}
    opt = optim.SGD(params, lr=1.0)
    result = opt.step({"w": np.array([3, 4, 0, 0], np.float32) * 1024},
                      loss_scale=1024, max_norm=1.0)
    assert result.grad_norm == 5
    np.testing.assert_allclose(params["w"], [-0.6, -0.8, 0, 0], rtol=1e-5)
    before = params["w"].copy()
    result = opt.step({"w": np.array([1, np.inf, 0, 0], np.float32)})
    assert result.skipped and opt.applied == 1
    assert np.array_equal(before, params["w"])


def test_state_goes_out_and_in():
    for first in all_optimizers(lambda: arrays(5, np.float16)):
        first.step(arrays(6, np.float16))
        saved, values = first.state_dict(), {k: v.copy() for k, v in first._params.items()}
        second = type(first)(values)
        second.load_state_dict(saved)
        for opt in (first, second):
            opt.step(arrays(7, np.float16))
        assert second.applied == 2
        for k in values:
            assert np.array_equal(first._params[k], values[k]), (type(first), k)


def test_state_that_does_not_fit_is_named_and_changes_nothing():
    opt = optim.AdamW(arrays(1))
    opt.step(arrays(2))
    good = opt.state_dict()
    for damage, text in [(lambda s: s["state"]["w"].pop("m"), "no m of w"),
                         (lambda s: s["state"].update(x={"m": np.zeros(3, np.float32)}), "m of x"),
                         (lambda s: s["state"]["b"].update(v=np.zeros(3, np.float32)), r"v of b: expected f32\[17\]"),
                         (lambda s: s["state"]["b"].update(v=np.zeros(17)), r"v of b: expected f32\[17\]"),
                         (lambda s: s.update(type="lion"), "the state of lion for adamw"),
                         (lambda s: s.update(applied=-1), "-1 applied")]:
        bad = opt.state_dict()
        damage(bad)
        with pytest.raises(shoal.ConfigError, match=text):
            opt.load_state_dict(bad)
        now = opt.state_dict()
        assert now["applied"] == 1
        assert all(np.array_equal(now["state"][k][m], good["state"][k][m]) for k in SHAPES for m in ("m", "v"))


def test_what_does_not_fit_is_named():
    opt = optim.AdamW(arrays(1))
    good = arrays(2)
    for change, text in [(dict(w=np.zeros((33, 17), np.float32)), r"gradient of w: expected f32\[17, 33\]"),
                         (dict(w=np.zeros((17, 33))), r"gradient of w: expected f32\[17, 33\], got f64"),
                         (dict(w=np.zeros((17, 33), np.float16)), "gradient of w: expected f32")]:
        with pytest.raises(shoal.ShapeError, match=text):
            opt.step({**good, **change})
    with pytest.raises(shoal.ShapeError, match="that of conv is missing"):
        opt.step({k: v for k, v in good.items() if k != "conv"})
    with pytest.raises(shoal.ShapeError, match="gradient 4 is that of more: expected no more"):
        opt.step({**good, "more": np.zeros(3, np.float32)})
    with pytest.raises(shoal.ShapeError, match="not contiguous"):
        opt.step({**good, "w": np.zeros((33, 17), np.float32).T})
    with pytest.raises(shoal.ShapeError, match="b: expected f32 on cpu, as a is, got f16"):
        optim.SGD({"a": np.zeros(3, np.float32), "b": np.zeros(3, np.float16)})
    with pytest.raises(shoal.ShapeError, match="a: expected f32, bf16 or f16"):
        optim.SGD({"a": np.zeros(3)})
    with pytest.raises(shoal.ConfigError, match="no tensors"):
        optim.SGD({})
    for wrong, text in [(dict(betas=(0.9, 1.0)), "beta2 = 1"), (dict(eps=0), "eps = 0"),
                        (dict(weight_decay=-1), "weight_decay = -1"), (dict(master_weights="some"), "some"),
                        (dict(groups=[{"pattern": "z*"}]), r'groups\[0\] covers no parameter: name "z\*"'),
                        (dict(groups=[{"lr": 1}]), 'rule with "lr"')]:
        with pytest.raises(shoal.ConfigError, match=text):
            optim.AdamW(arrays(1), **wrong)


def test_rules_say_what_decays_and_how_fast():
    params = {k: np.ones(s, np.float32) for k, s in SHAPES.items()}
    opt = optim.AdamW(params, lr=0.1, weight_decay=0.5,
                      groups=[{"dims": 1, "weight_decay": 0.0}, {"pattern": "c*", "lr_scale": 0.5}])
    opt.step({k: np.zeros(s, np.float32) for k, s in SHAPES.items()})
    assert np.all(params["b"] == 1) and np.all(params["w"] == np.float32(1 - 0.05))
    assert np.all(params["conv"] == np.float32(1 - 0.025))


def test_ranks_sum_gradients_and_different_lists_are_refused_alike():
    messages, results = [], []
    lock = threading.Lock()

    def run(group):
        params = arrays(1)
        opt = optim.AdamW(params, lr=0.01, group=group)
        opt.step(arrays(10 + group.rank))
        grads = arrays(20)
        if group.rank == 1:
            grads["b"] = np.zeros(16, np.float32)
        with pytest.raises(shoal.ConfigError) as error:
            opt.step(grads)
        with lock:
            messages.append(str(error.value))
        opt.step(arrays(30), average=True)  # goes on
        with lock:
            results.append(params)

    comm.run_local(3, run)
    assert len(set(messages)) == 1
    assert "number 1 is b f32[17] on cpu on rank 0 and b f32[16] on cpu on rank 1" in messages[0]
    alone = arrays(1)
    opt = optim.AdamW(alone, lr=0.01)
    opt.step({k: arrays(10)[k] + arrays(11)[k] + arrays(12)[k] for k in SHAPES})
    opt.step(arrays(30))
    for params in results:
        for k in SHAPES:
            np.testing.assert_allclose(params[k], alone[k], rtol=2e-5, atol=1e-7)
            assert np.array_equal(params[k], results[0][k])


def test_the_scaler_goes_as_torchs():
    scaler = optim.GradScaler(growth_interval=3)
    seen = []
    for skipped in [True, False, False, False, False, True, False, False, False]:
        seen.append(scaler.get_scale())
        scaler.update(skipped)
    assert seen == [65536, 32768, 32768, 32768, 65536, 65536, 32768, 32768, 32768]
    assert scaler.get_scale() == 65536
    assert scaler.scale(2.0) == 131072
    other = optim.GradScaler(growth_interval=3)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert optim.GradScaler(enabled=False).get_scale() == 1.0
    with pytest.raises(shoal.ConfigError, match="backoff = 2"):
        optim.GradScaler(backoff_factor=2)
