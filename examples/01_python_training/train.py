"""Trains a small GPT on a text file, data parallel: mpirun -n 2 python train.py TEXT [key=value ...]"""
import sys

import numpy
import shoal

if len(sys.argv) < 2:
    print("usage: python train.py TEXT [key=value ...]", file=sys.stderr)
    sys.exit(2)
text, overrides = sys.argv[1], sys.argv[2:]
world = shoal.comm.init()

job = {
    "model": {"type": "gpt", "layers": 2, "heads": 4, "hidden": 64, "seq": 64},
    "data": {"train": text},
    "train": {"steps": 30, "global_batch": 12, "threads": 1},
    "optimizer": {"lr": 3e-3, "warmup": 5},
    "run": {"name": "python_training"},
}
trainer = shoal.Trainer(job, overrides)

for _ in range(trainer.job["train"]["steps"]):
    metrics = trainer.step()
    if world.rank == 0 and metrics.step % 10 == 0:
        print(f"step {metrics.step}  loss {metrics.loss:.4f}  gradient norm {metrics.grad_norm:.4f}")
validation = trainer.evaluate()

# Parameters are NumPy arrays by their logical names, and collectives take arrays.
squares = sum(float(numpy.square(p, dtype=numpy.float64).sum()) for p in trainer.parameters.values())
largest, smallest = numpy.array([squares]), numpy.array([squares])
shoal.comm.all_reduce(largest, op="max")
shoal.comm.all_reduce(smallest, op="min")
assert largest[0] == smallest[0], "every rank holds the same parameters"
if world.rank == 0:
    print(f"{world.size} rank{'s' * (world.size != 1)}, validation loss {validation:.4f}, the same parameters on every rank")
