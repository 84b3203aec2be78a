"""Trains the same models with Shoal and with PyTorch, alternately, and prints the ratio of tokens a second.

    benchmarks/train/compare.py [--build build/cpu] [--python PYTHON_WITH_TORCH ...] [--rounds 5] [--models small,medium]

See README.md for what each column means.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODELS = {
    "small": dict(layers=4, hidden=256, heads=4),    # 3.3 M parameters
    "medium": dict(layers=6, hidden=384, heads=6),   # 10.8 M parameters
}
LAYOUTS = {"1 process x 2 threads": (1, 2), "2 ranks x 1 thread": (2, 1)}
SEQ, BATCH, VOCAB = 256, 8, 256


def environment():
    env = dict(os.environ)
    env.update(
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        OMPI_MCA_mpi_yield_when_idle="1",
        OMPI_MCA_hwloc_base_binding_policy="none",
    )
    return env


def run_shoal(build, model, ranks, threads, steps, folder, text):
    run = pathlib.Path(folder) / "run"
    keys = [
        "model.type=gpt", f"model.vocab={VOCAB}", f"model.seq={SEQ}", f"data.train='{text}'", "data.split=0.9",
        f"train.global_batch={BATCH}", f"train.steps={steps}", f"train.threads={threads}", "optimizer.lr=1e-3",
        f"run.dir='{run}'",
    ] + [f"model.{k}={v}" for k, v in model.items()]
    command = [str(build / "bin" / "shoal"), "train", "--quiet"] + keys
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks)] + command
    # The peak is the largest resident set of any process of the job, as the kernel counts it.
    wrapper = (
        "import resource,subprocess,sys;r=subprocess.call(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss*1024);sys.exit(r)"
    )
    done = subprocess.run([sys.executable, "-c", wrapper] + command, env=environment(), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"shoal failed: {done.stderr[-2000:]}")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rates = [line["tokens_per_second"] for line in lines[3:]]
    return {"tokens_per_second": statistics.median(rates), "peak_rss_bytes": int(done.stdout.split()[-1]),
            "peak_bytes": lines[-1]["peak_bytes"]}


def run_torch(python, model, ranks, threads, steps, extra=()):
    command = [python, str(HERE / "torch_train.py"), f"--ranks={ranks}", f"--threads={threads}", f"--steps={steps}",
               f"--seq={SEQ}", f"--global-batch={BATCH}", f"--vocab={VOCAB}"]
    command += [f"--{k}={v}" for k, v in model.items()] + list(extra)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1:]
    return json.loads(done.stdout.splitlines()[-1]), None


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "cpu")
    p.add_argument("--python", action="append", help="an interpreter that has torch; may be given several times")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--models", default="small,medium")
    p.add_argument("--compile", action="store_true", help="also torch.compile (torch 2)")
    a = p.parse_args()
    peers = []
    for python in a.python or ["/usr/bin/python3"]:
        probe = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
        if probe.returncode != 0:
            print(f"{python}: no torch there, left out")
            continue
        peers.append((f"torch {probe.stdout.strip()}", python, ()))
        if a.compile and not probe.stdout.startswith("1."):
            peers.append((f"torch {probe.stdout.strip()} compiled", python, ("--compile",)))
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder) / "text.txt"
        text.write_bytes(b"".join(f.read_bytes() for f in sorted(pathlib.Path(os.__file__).parent.glob("*.py"))[:80]))
        for name in a.models.split(","):
            for layout, (ranks, threads) in LAYOUTS.items():
                ours, theirs, memory = [], {peer[0]: [] for peer in peers}, {}
                for _ in range(a.rounds):
                    r = run_shoal(a.build, MODELS[name], ranks, threads, a.steps + 3, folder, text)
                    ours.append(r["tokens_per_second"])
                    memory["shoal"] = r["peak_rss_bytes"]
                    for label, python, extra in peers:
                        r, why = run_torch(python, MODELS[name], ranks, threads, a.steps, extra)
                        if r is None:
                            print(f"{label}: failed: {why}")
                            continue
                        theirs[label].append(r["tokens_per_second"])
                        memory[label] = r["peak_rss_bytes"]
                mine = statistics.median(ours)
                print(f"{name:7} {layout:22} shoal {mine:8.0f} tokens/s, {memory['shoal'] / 2**20:6.0f} MiB")
                for label, rates in theirs.items():
                    if rates:
                        ratios = [x / y for x, y in zip(ours, rates)]
                        print(f"        {'':22} {label} {statistics.median(rates):8.0f} tokens/s, "
                              f"{memory[label] / 2**20:6.0f} MiB, ratio {statistics.median(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
