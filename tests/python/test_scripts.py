"""The scripts say what they take, and do nothing when asked for something else."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ["quickstart", "setup", "test", "lint"]


def script(name, *arguments):
    return subprocess.run([str(ROOT / "scripts" / name), *arguments], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help(name, flag):
    done = script(name, flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: scripts/{name} ")


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("arguments", [["--fast"], ["nonsense"], ["--all", "--fast"]])
def test_unknown_arguments(name, arguments):
    done = script(name, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"scripts/{name}: unknown argument") and f"usage: scripts/{name} " in done.stderr


def test_the_quickstart_takes_keys_only():
    assert "unknown argument: job.toml" in script("quickstart", "train.steps=2", "job.toml").stderr
