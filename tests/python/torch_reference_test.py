"""A GPT's and a Llama's loss and gradients against PyTorch in FP64.

    torch_reference_test.py MODEL_DUMP

The models below are written from the published definitions with plain tensor operations and share nothing with the
library but the names of the tensors. For each tensor |g - g64| <= 1e-5 max(|g64|, 1e-3 global norm) in the 2-norm.
Exits with 77 (skipped) where torch is missing.
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
except ImportError as missing:
    print(f"SKIPPED: {missing}: gradients are not compared with PyTorch's (Debian: apt install python3-torch)")
    sys.exit(77)


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    kinds = {"F32": numpy.float32, "I32": numpy.int32}
    tensors = {}
    for name, info in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        first, last = (8 + length + offset for offset in info["data_offsets"])
        array = numpy.frombuffer(data[first:last], dtype=kinds[info["dtype"]]).reshape(info["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def attend(q, k, v, heads):
    """Causal softmax attention; q, k, v are [samples, tokens, any heads, head_dim]."""
    group = heads // k.shape[2]
    k, v = (t.repeat_interleave(group, dim=2) for t in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    future = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    probabilities = scores.masked_fill(future, -math.inf).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", probabilities, v).flatten(2)


def gpt(w, tokens):
    heads, layers = 3, 2

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    for i in range(layers):
        block = f"blocks.{i}."
        h = norm(x, block + "ln_1")
        q, k, v = (linear(h, block + "attn." + n).unflatten(2, (heads, -1)) for n in "qkv")
        x = x + linear(attend(q, k, v, heads), block + "attn.proj")
        h = norm(x, block + "ln_2")
        x = x + linear(gelu(linear(h, block + "mlp.fc")), block + "mlp.proj")
    return norm(x, "ln_f") @ w.get("lm_head.weight", w["wte.weight"]).T


def llama(w, tokens):
    heads, kv_heads, layers = 4, 2, 2

    def linear(x, name):
        return x @ w[name + ".weight"].T

    def norm(x, name):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w[name + ".weight"]

    def rotate(x):
        half = x.shape[-1] // 2
        frequency = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = (torch.arange(x.shape[1], dtype=torch.float64)[:, None] * frequency)[:, None, :]
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    x = w["model.embed_tokens.weight"][tokens]
    for i in range(layers):
        layer = f"model.layers.{i}."
        h = norm(x, layer + "input_layernorm")
        q = linear(h, layer + "self_attn.q_proj").unflatten(2, (heads, -1))
        k, v = (linear(h, layer + f"self_attn.{n}_proj").unflatten(2, (kv_heads, -1)) for n in "kv")
        x = x + linear(attend(rotate(q), rotate(k), v, heads), layer + "self_attn.o_proj")
        h = norm(x, layer + "post_attention_layernorm")
        gate, up = (linear(h, layer + f"mlp.{n}_proj") for n in ("gate", "up"))
        x = x + linear(gate * torch.sigmoid(gate) * up, layer + "mlp.down_proj")
    return norm(x, "model.norm") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def compare(dump, model, pieces, tied):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.safetensors"
        subprocess.run([dump, path, model.__name__, str(pieces), str(int(tied))], check=True, timeout=120)
        file = read_safetensors(path)
    weights = {n[6:]: t.double().requires_grad_() for n, t in file.items() if n.startswith("value.")}
    tokens, targets = file["tokens"].long(), file["targets"].long()
    assert ("lm_head.weight" in weights) != tied
    assert (targets < 0).any() and (targets >= 0).any()

    logits = model(weights, tokens)
    valid = targets >= 0
    loss = -logits.log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0] * valid
    (loss.sum() / valid.sum()).backward()

    case = f"{model.__name__}, {pieces} piece(s), {'tied' if tied else 'untied'}"
    failures = []
    worst = error = ((file["loss"].double() - loss).norm() / loss.norm()).item()
    if not error <= 1e-5:
        failures.append(f"{case}: loss: relative error {error:.2e}")
    global_norm = math.sqrt(sum(t.grad.norm().item() ** 2 for t in weights.values()))
    for name, t in weights.items():
        got = file["grad." + name].double()
        error = ((got - t.grad).norm() / max(t.grad.norm(), 1e-3 * global_norm)).item()
        worst = max(worst, error)
        if not error <= 1e-5:
            failures.append(f"{case}: {name}: relative error {error:.2e}, norm {t.grad.norm():.3e}")
    print(f"{case}: {len(weights)} gradients, global norm {global_norm:.3f}, worst relative error {worst:.1e}")
    return failures


def main():
    torch.set_num_threads(1)
    failures = []
    for model in (gpt, llama):
        for pieces in (1, 3):
            for tied in (True, False):
                failures += compare(sys.argv[1], model, pieces, tied)
    for failure in failures:
        print("FAILED", failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
