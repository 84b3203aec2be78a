"""The peer: the same GPT trained with PyTorch, at the best settings found (see README.md).

Prints one JSON line: tokens_per_second (the median step after the warm-up), peak_rss_bytes (the largest process),
loss, torch's version. With --ranks above 1 it starts that many DistributedDataParallel processes over gloo.
"""
import argparse
import json
import math
import os
import resource
import statistics
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--vocab", type=int, default=256)
    p.add_argument("--seq", type=int, default=256)
    p.add_argument("--global-batch", type=int, default=8)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--port", type=int, default=29531)
    return p.parse_args()


def build(torch, a):
    nn, functional = torch.nn, torch.nn.functional
    head_dim = a.hidden // a.heads
    mask = torch.full((a.seq, a.seq), -math.inf).triu(1)
    has_sdpa = hasattr(functional, "scaled_dot_product_attention")

    def attention(q, k, v):
        if has_sdpa:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        b = q.shape[0] * a.heads
        q, k, v = (z.reshape(b, a.seq, head_dim) for z in (q, k, v))
        # One fused call for scale, product and mask.
        s = torch.baddbmm(mask.expand(b, a.seq, a.seq), q, k.transpose(1, 2), alpha=head_dim**-0.5)
        return torch.bmm(torch.softmax(s, -1), v).view(-1, a.heads, a.seq, head_dim)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(a.hidden), nn.LayerNorm(a.hidden)
            self.qkv, self.proj = nn.Linear(a.hidden, 3 * a.hidden), nn.Linear(a.hidden, a.hidden)
            self.fc, self.out = nn.Linear(a.hidden, 4 * a.hidden), nn.Linear(4 * a.hidden, a.hidden)

        def forward(self, x):
            b = x.shape[0]
            parts = self.qkv(self.ln_1(x)).split(a.hidden, 2)
            q, k, v = (z.view(b, a.seq, a.heads, head_dim).transpose(1, 2) for z in parts)
            x = x + self.proj(attention(q, k, v).transpose(1, 2).reshape(b, a.seq, a.hidden))
            return x + self.out(functional.gelu(self.fc(self.ln_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.word, self.position = nn.Embedding(a.vocab, a.hidden), nn.Embedding(a.seq, a.hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(a.layers))
            self.norm = nn.LayerNorm(a.hidden)
            self.head = nn.Linear(a.hidden, a.vocab, bias=False)
            self.head.weight = self.word.weight
            for name, p in self.named_parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, 0.0, 0.02)

        def forward(self, x, y):
            h = self.word(x) + self.position.weight
            for block in self.blocks:
                h = block(h)
            return functional.cross_entropy(self.head(self.norm(h)).view(-1, a.vocab), y.view(-1))

    return Gpt()


def train(rank, a, results=None):
    import torch

    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = build(torch, a)
    parameters = list(model.parameters())
    step_model = model
    if a.ranks > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{a.port}", rank=rank, world_size=a.ranks)
        step_model = torch.nn.parallel.DistributedDataParallel(model)
    if a.compile:
        step_model = torch.compile(step_model)
    options = dict(lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    try:
        optimizer = torch.optim.AdamW(parameters, fused=True, **options)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW(parameters, foreach=True, **options)
    batch = a.global_batch // a.ranks
    seconds = []
    for _ in range(a.warmup + a.steps):
        x = torch.randint(a.vocab, (batch, a.seq))
        y = torch.randint(a.vocab, (batch, a.seq))
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = step_model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        loss = float(loss.detach())
        seconds.append(time.perf_counter() - begin)
    tokens = a.global_batch * a.seq
    out = {
        "tokens_per_second": tokens / statistics.median(seconds[a.warmup :]),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss": loss,
        "version": torch.__version__,
    }
    if rank == 0:
        print(json.dumps(out), flush=True)
    if a.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


def main():
    a = arguments()
    os.environ["OMP_NUM_THREADS"] = str(a.threads)
    # glibc gives large blocks back to the system after every step unless told not to.
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", "4294967296")
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", "4294967296")
    if os.environ.get("TORCH_TRAIN_CHILD") != "1":  # the malloc settings are read when a process starts
        os.environ["TORCH_TRAIN_CHILD"] = "1"
        import sys

        os.execv(sys.executable, [sys.executable] + sys.argv)
    if a.ranks == 1:
        train(0, a)
    else:
        import torch.multiprocessing as mp

        mp.spawn(train, args=(a,), nprocs=a.ranks)


if __name__ == "__main__":
    main()
