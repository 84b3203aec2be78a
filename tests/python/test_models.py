"""shoal.models: loss, gradients, logits and text of the models, against NumPy in FP64 where that is possible."""
import numpy as np
import pytest
import shoal
from shoal.models import Model

SIZES = {"layers": 2, "hidden": 32, "heads": 4, "vocab": 61, "seq": 16}


def make(kind="gpt", **more):
    return Model(kind, **{**SIZES, **({"kv_heads": 2} if kind == "llama" else {}), **more})


def batch(model, samples=3, seed=0):
    ids = np.random.default_rng(seed).integers(0, model.vocab, (samples, model.seq + 1), dtype=np.int32)
    targets = np.ascontiguousarray(ids[:, 1:])
    targets[0, :5] = -1
    return np.ascontiguousarray(ids[:, :-1]), targets


def reference_loss(logits, targets):
    z = logits.astype(np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    valid = targets >= 0
    return -np.take_along_axis(log_p, np.maximum(targets, 0)[..., None], -1)[..., 0][valid].mean()


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_loss_is_that_of_the_logits(kind):
    model = make(kind)
    tokens, targets = batch(model)
    logits = model.logits(tokens)
    assert logits.shape == (3, 16, 61) and logits.dtype == np.float32
    expected = reference_loss(logits, targets)
    assert abs(expected - np.log(61)) < 0.1
    assert model.loss(tokens, targets) == pytest.approx(expected, rel=1e-6)
    assert model.loss_and_gradients(tokens, targets) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_gradient_is_the_slope(kind):
    """Along the gradient itself the loss rises by the gradient's norm."""
    model = make(kind)
    tokens, targets = batch(model)
    model.loss_and_gradients(tokens, targets)
    start, gradients = model.parameters, model.gradients
    assert start.keys() == gradients.keys()
    norm = np.sqrt(sum(np.square(g, dtype=np.float64).sum() for g in gradients.values()))
    step = 4e-3
    losses = []
    for sign in (1, -1):
        model.set_parameters({n: (start[n] + sign * step / norm * gradients[n]).astype(np.float32) for n in start})
        losses.append(model.loss(tokens, targets))
    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(norm, rel=5e-3)


def test_parameters_are_logical_and_copies():
    model = make()
    first = model.parameters
    assert any(p.shape == (61, 32) for p in first.values())
    for p in first.values():
        p[:] = 0
    assert any(p.any() for p in model.parameters.values())
    model.set_parameters(first)
    assert not any(p.any() for p in model.parameters.values())
    other = make(seed=2).parameters
    name = next(n for n, p in other.items() if p.shape == (61, 32))
    with pytest.raises(shoal.ConfigError, match="no parameter nonsense"):
        model.set_parameters({name: other[name], "nonsense": other[name]})
    with pytest.raises(shoal.ShapeError, match=r"\[61, 32\] is expected"):
        model.set_parameters({name: other[name][:60]})
    assert not model.parameters[name].any(), "a refused call changes nothing"
    model.set_parameters({name: other[name]})
    np.testing.assert_array_equal(model.parameters[name], other[name])


def test_save_and_load(tmp_path):
    model, other = make(seed=1), make(seed=2)
    model.save(str(tmp_path / "m.safetensors"))
    other.load(str(tmp_path / "m.safetensors"))
    for name, p in model.parameters.items():
        np.testing.assert_array_equal(other.parameters[name], p)
    with pytest.raises(shoal.CheckpointError):
        make(layers=1).load(str(tmp_path / "m.safetensors"))


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_generation_without_temperature_is_the_most_likely(kind):
    model = make(kind)
    prompt = [5, 7, 11]
    new = model.generate(prompt, count=4, temperature=0)
    tokens = np.zeros((1, model.seq), np.int32)
    tokens[0, :3] = prompt
    for i, token in enumerate(new):
        assert token == model.logits(tokens)[0, 2 + i].argmax()
        tokens[0, 3 + i] = token


def test_what_is_refused():
    model = make()
    tokens, targets = batch(model)
    with pytest.raises(shoal.ShapeError, match=r"tokens: i64.*i32\[samples, 16\] is expected"):
        model.loss(tokens.astype(np.int64), targets)
    with pytest.raises(shoal.ShapeError, match="differ in shape"):
        model.loss(tokens[:2], targets)
    with pytest.raises(shoal.ShapeError, match="61"):
        model.loss(np.full_like(tokens, 61), targets)
    with pytest.raises(shoal.ConfigError, match="expected \"gpt\" or \"llama\""):
        Model("bert")
    with pytest.raises(ValueError, match="heads"):
        make(heads=5)
