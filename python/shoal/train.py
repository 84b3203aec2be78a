"""Jobs and the Trainer: what `shoal train` runs, step by step."""
import json
import os
import re

from . import _core, comm
from ._core import Metrics
from .errors import ConfigError

__all__ = ["Job", "Metrics", "Trainer"]


def _value(value, key):
    """A Python value as TOML."""
    if value is None:
        raise ConfigError(f"{key} = None: expected a value; leave the key out to have its default")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_value(v, f'{key}.{k}')}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v, key) for v in value) + "]"
    return repr(value.item() if hasattr(value, "item") else value)


def _overrides(items, prefix=""):
    """Nested dicts, a list of "key=value", or one such string, as the list that the library takes."""
    if isinstance(items, str):
        return [items]
    if not isinstance(items, dict):
        return list(items or [])
    flat = []
    for key, value in items.items():
        name = f"{prefix}{key}"
        flat += _overrides(value, f"{name}.") if isinstance(value, dict) else [f"{name}={_value(value, name)}"]
    return flat


def _json(toml):
    """TOML's arrays of inline tables, whose keys are plain words, as JSON."""
    return re.sub(r'"(?:\\.|[^"\\])*"|(\w+) = ', lambda m: f'"{m[1]}": ' if m[1] else m[0], toml)


class Job:
    """The whole configuration of a run: a dict with the sections of a job file, or the path of one, then overrides
    ("train.steps=100", a list of such, or a dict). Unknown keys and impossible values are a ConfigError that says what is
    accepted."""

    def __init__(self, job=None, overrides=()):
        if isinstance(job, Job):
            self._job = _core.load_job("", job._items + _overrides(overrides)) if overrides else job._job
            self._items = job._items + _overrides(overrides)
            return
        path = "" if job is None or isinstance(job, dict) else os.fspath(job)
        self._items = (_overrides(job) if isinstance(job, dict) else []) + _overrides(overrides)
        self._job = _core.load_job(path, self._items)
        if path:
            self._items = _overrides(self.to_dict())

    @classmethod
    def _of(cls, job):
        made = cls.__new__(cls)
        made._job, made._items = job, []
        made._items = _overrides(made.to_dict())
        return made

    def resolved(self, ranks):
        """The job with what follows from the rank count filled in and every division checked."""
        return Job._of(self._job.resolved(ranks))

    def predict_memory(self, ranks=1, rank=0):
        """Bytes of one rank: parameters, gradients, optimizer, activations, other, total."""
        return _core.predict_memory(self._job, ranks, rank)

    def to_toml(self):
        return self._job.to_toml()

    def to_dict(self):
        sections, section = {}, {}
        for line in self.to_toml().splitlines():
            line = line.strip()
            if line.startswith("["):
                section = sections.setdefault(line.strip("[]"), {})
            elif line and not line.startswith("#"):
                key, value = line.split(" = ", 1)
                section[key] = float(value) if value in ("inf", "-inf", "nan") else json.loads(_json(value))
        return sections

    def __getitem__(self, section):
        return self.to_dict()[section]

    def __repr__(self):
        return f"<shoal.Job {self.to_dict()}>"


class Trainer:
    """Runs a job on the ranks of a communicator (by default the world, which it joins). Collective throughout.

    on_step: called on rank 0 with the Metrics of each step of run(). write_records: whether run() writes job.toml,
    metrics.jsonl and the final weights into run.dir (trainer.job["run"]["dir"], by default runs/<name>), as `shoal train`
    does. None: yes, and run() makes the directory; True: it is made, and refused where it cannot be written, at once;
    False: nothing is written. step() and evaluate() write nothing."""

    def __init__(self, job=None, overrides=(), group=None, write_records=None, on_step=None):
        given, job = job, Job(job, overrides)
        if given is None and not job["data"]["train"]:
            raise ConfigError("Trainer: no job and no data.train given: expected a dict with the sections of a job file, "
                              'the path of one, or a Job, with at least the training data, such as '
                              'Trainer({"data": {"train": "text.txt"}})')
        if group is None:
            settings = job["comm"]
            group = comm.init(settings["backend"], settings["timeout"])
        place = f"rank {group.rank} of {group.size}"  # a CommError where this rank is not in the group
        self._trainer = _core.Trainer(job._job, group, write_records, on_step)
        self._resolved = Job._of(self._trainer.resolved_job)
        self._place = place

    @property
    def job(self):
        """The job as resolved."""
        return self._resolved

    def __repr__(self):
        job = self._resolved
        return f"<shoal.Trainer of {job['model']['type']}, {job['train']['steps']} steps: {self._place}>"

    def step(self):
        """One global batch; its Metrics."""
        return self._trainer.step()

    def evaluate(self):
        """The mean loss over the whole validation part."""
        return self._trainer.evaluate()

    def evaluate_average(self):
        """The same with the exponential moving average of the weights (ema.decay)."""
        return self._trainer.evaluate_average()

    def run(self):
        """The remaining steps, evaluations, and the final weights; records in run.dir (write_records)."""
        self._trainer.run()

    def save_weights(self, path):
        """Rank 0 writes a safetensors file."""
        self._trainer.save_weights(os.fspath(path))

    @property
    def parameters(self):
        """Every parameter as a float32 array by its logical name: copies, row-major and unpadded."""
        return self._trainer.parameters
