#!/usr/bin/env python3
"""AdamW beside PyTorch's, alternately: 64 matrices of 512 x 512, milliseconds an update.

    benchmarks/kernels/adamw.py [--build build/cpu] [--python PYTHON_WITH_TORCH ...] [--rounds 5] [--threads 2]

See README.md for the figures.
"""
import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# One side: the least time of 20 updates, for each way torch has.
TORCH = """
import inspect, sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
for way in ("foreach", "fused"):
    if way not in inspect.signature(torch.optim.AdamW.__init__).parameters:
        continue
    p = [torch.nn.Parameter(torch.randn(512, 512)) for _ in range(64)]
    for x in p:
        x.grad = torch.randn(512, 512)
    optimizer = torch.optim.AdamW(p, lr=1e-6, **{way: True})
    least = 1e9
    for _ in range(20):
        start = time.perf_counter()
        optimizer.step()
        least = min(least, time.perf_counter() - start)
    print("torch", torch.__version__, way, 1e3 * least)
"""


def shoal(build, threads):
    out = subprocess.run([f"{build}/bin/bench_adamw", str(threads), "20", "16"], check=True, capture_output=True, text=True)
    line = next(x for x in out.stdout.splitlines() if x.startswith("AdamW, FP32"))
    return {"Shoal": float(line.split()[2])}


def torch(python, threads):
    # As benchmarks/train gives it: without the thresholds, temporaries are mapped anew at every update.
    env = dict(os.environ, OMP_NUM_THREADS=str(threads), MALLOC_TRIM_THRESHOLD_="4294967296",
               MALLOC_MMAP_THRESHOLD_="4294967296")
    out = subprocess.run([python, "-c", TORCH, str(threads)], check=True, capture_output=True, text=True, env=env)
    return {" ".join(x.split()[:3]): float(x.split()[3]) for x in out.stdout.splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "cpu")
    parser.add_argument("--python", action="append", default=[], help="with PyTorch; may be given several times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    least = {}
    for _ in range(options.rounds):
        sides = [shoal(options.build, options.threads)]
        sides += [torch(p, options.threads) for p in options.python or [sys.executable]]
        for name, milliseconds in (x for side in sides for x in side.items()):
            least[name] = min(milliseconds, least.get(name, milliseconds))
    for name, milliseconds in least.items():
        print(f"{name:30} {milliseconds:8.2f} ms {milliseconds / least['Shoal']:6.2f} x Shoal's")


if __name__ == "__main__":
    main()
