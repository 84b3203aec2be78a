"""shoal.Trainer and shoal.Job."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import shoal
import shoal.comm as comm

ROOT = pathlib.Path(__file__).resolve().parents[2]
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"The {n}th line says that {n} and {n} are {2 * n}.\n" for n in range(400)))
    return path


def small(text, **train):
    return {"model": {"layers": 2, "hidden": 32, "heads": 4, "seq": 32}, "data": {"train": text},
            "train": {"steps": 6, "global_batch": 6, "threads": 1, **train},
            "optimizer": {"betas": [0.9, 0.95], "lr": 3e-3}}


def test_job_from_a_dict_a_file_and_overrides(text, tmp_path):
    job = shoal.Job(small(text), ["train.steps=7", "model.heads=2"])
    assert job["train"]["steps"] == 7 and job["model"]["heads"] == 2
    assert job["data"]["train"] == str(text)
    assert job["optimizer"]["betas"] == [0.9, 0.95]
    (tmp_path / "job.toml").write_text(job.to_toml())
    again = shoal.Job(tmp_path / "job.toml")
    assert again.to_dict() == job.to_dict()
    assert shoal.Job(again, {"train": {"steps": 8}})["train"]["steps"] == 8
    assert again["train"]["steps"] == 7
    assert job.resolved(2)["parallel"]["data"] == 2
    awkward = 'a "quoted"\\ path\n\t#é = x'
    assert shoal.Job({"data": {"train": awkward}})["data"]["train"] == awkward


def test_job_errors(text):
    with pytest.raises(shoal.ConfigError, match="train.stepz.*train.steps"):
        shoal.Job(small(text), ["train.stepz=7"])
    with pytest.raises(ValueError, match="train.steps"):
        shoal.Job({"train": {"steps": "many"}})
    with pytest.raises(shoal.ConfigError, match="6"):
        shoal.Job(small(text)).resolved(4)


def test_one_override_may_be_a_string(text):
    assert shoal.Job(small(text), "train.steps=2")["train"]["steps"] == 2
    assert shoal.Trainer(small(text), "train.steps=2", group=shoal._core.make_self()).job["train"]["steps"] == 2


def test_none_is_named():
    with pytest.raises(shoal.ConfigError, match="^train.steps = None: expected a value"):
        shoal.Job({"train": {"steps": None}})
    with pytest.raises(shoal.ConfigError, match="^optimizer.betas = None"):
        shoal.Job(overrides={"optimizer": {"betas": [0.9, None]}})


def test_a_trainer_of_nothing_says_what_it_needs():
    with pytest.raises(shoal.ConfigError, match="Trainer: no job.*a dict.*the path.*data.*train"):
        shoal.Trainer()


def test_trainer_repr(text):
    trainer = shoal.Trainer(small(text), group=shoal._core.make_self())
    assert repr(trainer) == "<shoal.Trainer of gpt, 6 steps: rank 0 of 1>"


def test_memory_is_predicted(text):
    bytes_ = shoal.Job(small(text)).predict_memory(ranks=2)
    assert bytes_["total"] == sum(v for k, v in bytes_.items() if k != "total") > 0


def test_steps_on_one_rank_and_on_threads_are_the_same_bits(text):
    job = shoal.Job(small(text), {"reproducible": {"on": True, "data": 6}})

    def train(group, into):
        trainer = shoal.Trainer(job, group=group)
        into[group.rank] = ([trainer.step() for _ in range(6)], trainer.evaluate(), trainer.parameters)

    alone, threads = {}, {}
    train(shoal._core.make_self(), alone)
    comm.run_local(3, lambda c: train(c, threads))
    steps, validation, parameters = alone[0]
    assert [m.step for m in steps] == [1, 2, 3, 4, 5, 6] and steps[-1].loss < steps[0].loss
    assert steps[0].tokens == 6 * 32
    for rank in range(3):
        assert [(m.loss, m.grad_norm) for m in threads[rank][0]] == [(m.loss, m.grad_norm) for m in steps]
        assert threads[rank][1] == validation
        assert threads[rank][2].keys() == parameters.keys()
        for name, value in parameters.items():
            np.testing.assert_array_equal(threads[rank][2][name], value, err_msg=name)


def test_run_writes_the_records(text, tmp_path):
    seen = []
    trainer = shoal.Trainer(small(text), {"run": {"dir": tmp_path / "run"}}, write_records=True, on_step=seen.append)
    trainer.run()
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [m.step for m in seen] == [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [m.loss for m in seen] == [line["loss"] for line in lines], "the same bits"
    assert seen[-1].val_loss == lines[-1]["val_loss"]
    assert shoal.Job(tmp_path / "run" / "job.toml").to_dict() == trainer.job.to_dict()
    model = shoal.models.Model("gpt", layers=2, hidden=32, heads=4, seq=32)
    model.load(str(tmp_path / "run" / "model.safetensors"))
    for name, value in trainer.parameters.items():
        np.testing.assert_array_equal(model.parameters[name], value)


def test_run_writes_the_records_unless_told_not_to(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = shoal._core.make_self()
    trainer = shoal.Trainer(small(text, steps=1), group=alone)
    trainer.step()
    assert not (tmp_path / "runs").exists(), "step() writes nothing"
    trainer = shoal.Trainer(small(text, steps=1), group=alone)
    assert trainer.job["run"]["dir"] == "runs/run"
    trainer.run()
    assert sorted(p.name for p in (tmp_path / "runs" / "run").iterdir()) == ["job.toml", "metrics.jsonl", "model.safetensors"]
    shoal.Trainer(small(text, steps=1), "run.name=silent", group=alone, write_records=False).run()
    assert not (tmp_path / "runs" / "silent").exists()
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(shoal.ConfigError, match="run directory file/run: it cannot be written"):
        shoal.Trainer(small(text), {"run": {"dir": "file/run"}}, group=alone, write_records=True)


def test_an_exception_in_on_step_reaches_the_caller(text):
    def stop(metrics):
        if metrics.step == 2:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        shoal.Trainer(small(text), write_records=False, on_step=stop).run()


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun")
def test_a_rank_that_raises_ends_the_job(tmp_path):
    (tmp_path / "script.py").write_text(
        "import numpy, shoal.comm as comm\ncomm.init()\n"
        "if comm.rank() == 1: raise ValueError('rank 1 had enough of it')\ncomm.all_reduce(numpy.zeros(4))\n")
    done = subprocess.run(["mpirun", "-n", "3", sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True,
                          env={**os.environ, **MPI, "SHOAL_TIMEOUT": "60"}, timeout=50)
    assert done.returncode != 0
    assert "ValueError: rank 1 had enough of it" in done.stderr


@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun")
@pytest.mark.parametrize("code, message", [
    ("shoal.Trainer({'data': {'train': 'none.txt'}, 'train': {'global_batch': 6}})", "shoal.errors.DataError: none.txt: "),
    ("shoal.Trainer({'data': {'train': 'none.txt'}, 'train': {'stepz': 1}})", "shoal.errors.ConfigError: unknown key"),
    ("raise KeyError('of the script')", "KeyError: 'of the script'")])
def test_what_all_ranks_raise_is_shown_once(tmp_path, code, message):
    (tmp_path / "script.py").write_text(f"import shoal\nshoal.comm.init()\n{code}\n")
    done = subprocess.run(["mpirun", "-n", "3", sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True,
                          env={**os.environ, **MPI, "SHOAL_TIMEOUT": "60"}, timeout=50, cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.count(message) == done.stderr.count("Traceback") == 1, done.stderr


def test_announced_ranks_that_cannot_meet_are_an_error():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "SLURM_"))}
    done = subprocess.run([sys.executable, "-c", "import shoal; shoal.comm.init()"], capture_output=True, text=True,
                          env={**env, "WORLD_SIZE": "2", "RANK": "0"}, timeout=60)
    assert done.returncode != 0 and "shoal.errors.ConfigError" in done.stderr and "WORLD_SIZE" in done.stderr


def test_sixteen_bits_skipped_steps_and_averages(text):
    job = {**small(text, precision="fp16"), "scaler": {"initial": 1e8}, "ema": {"decay": 0.5}}
    metrics = []
    trainer = shoal.Trainer(job, group=shoal._core.make_self(), write_records=False, on_step=metrics.append)
    trainer.run()
    first = metrics[0]
    assert first.skipped and first.loss_scale == 1e8 and first.overflow == ("wte.weight", 0)
    assert not metrics[-1].skipped and metrics[-1].overflow is None and metrics[-1].outlier is None
    assert metrics[-1].val_loss_ema == trainer.evaluate_average() != metrics[-1].val_loss
    values = trainer.parameters["wte.weight"]
    assert values.dtype == np.float32 and np.array_equal(values, values.astype(np.float16))


def test_rules_for_groups_go_through_a_job(text):
    rules = [{"name": "slow = steady", "pattern": "*.attn.*", "dims": 2, "lr_scale": 0.5, "betas": [0.5, 0.6]},
             {"kinds": ["norm", "bias"], "weight_decay": 0.25}, {"tied": True, "muon": False}]
    job = shoal.Job(small(text), {"optimizer": {"groups": rules}})
    assert job["optimizer"]["groups"] == rules
    assert shoal.Job(job, "train.steps=3")["optimizer"]["groups"] == rules
    shoal.Trainer(job, group=shoal._core.make_self(), write_records=False).step()
    with pytest.raises(shoal.ConfigError, match=r'optimizer.groups\[0\] \("x"\) covers no parameter: name "z\*", dims 1'):
        shoal.Trainer(shoal.Job(job, {"optimizer": {"groups": [{"name": "x", "pattern": "z*", "dims": 1}]}}),
                      group=shoal._core.make_self(), write_records=False)
    for wrong, message in [({"dims": 3}, "dims: expected 1"), ({"kinds": ["matrices"]}, "kinds: expected an array of matrix"),
                           ({"lr": 1.0}, "unknown key optimizer.groups"), ({"tied": 1}, "tied: expected true or false")]:
        with pytest.raises(shoal.ConfigError, match=message):
            shoal.Job(job, {"optimizer": {"groups": [wrong]}})
