"""The numbered examples, run as their READMEs say, and the installed package on the way."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SHOAL_BUILD_DIR", ROOT / "build" / "cpu"))
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def run(*command, cwd):
    done = subprocess.run([str(c) for c in command], cwd=cwd, env={**os.environ, **MPI}, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"The {n}th line says that {n} and {n} are {2 * n}.\n" for n in range(600)))
    return path


@pytest.fixture(scope="module")
def python_lines(text, tmp_path_factory):
    """What 01_python_training prints on two ranks."""
    launcher = ["mpirun", "-n", "2"] if shutil.which("mpirun") else []
    out = run(*launcher, sys.executable, ROOT / "examples" / "01_python_training" / "train.py", text,
              cwd=tmp_path_factory.mktemp("python"))
    return [line for line in out.splitlines() if line.strip()]


def test_python_example(python_lines):
    losses = [float(re.match(r"step \d+  loss ([0-9.]+)", line).group(1)) for line in python_lines[:3]]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 4.0
    assert python_lines[-1].endswith("the same parameters on every rank")


def test_python_example_without_arguments(tmp_path):
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "01_python_training" / "train.py")], cwd=tmp_path,
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: python train.py TEXT [key=value ...]\n"


def run_failing(*command, cwd):
    done = subprocess.run([str(c) for c in command], cwd=cwd, env={**os.environ, **MPI}, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode != 0
    return done.stderr


def readme_program(language):
    """The code block of README.md that follows the line beginning with `language`, without its indentation."""
    lines = (ROOT / "README.md").read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(language))
    block = []
    for line in lines[first + 1:]:
        if line and not line.startswith("    "):
            if any(block):
                break
            continue  # the rest of the line's paragraph
        block.append(line[4:])
    return "\n".join(block) + "\n"


def test_readme_python_program(text, tmp_path):
    shutil.copy(text, tmp_path / "text.txt")
    (tmp_path / "train.py").write_text(readme_program("Python (").replace("200", "4"))
    launcher = ["mpirun", "-n", "2"] if shutil.which("mpirun") else []
    out = run(*launcher, sys.executable, "train.py", cwd=tmp_path).splitlines()
    assert len(out) == 1 and re.match(r"[0-9.]+ [0-9.]+ \['", out[0]), out


def test_cpp_example_with_the_installed_package(text, python_lines, tmp_path):
    if not (BUILD / "cmake_install.cmake").exists():
        pytest.skip(f"{BUILD} is not a build tree")
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "prefix", cwd=tmp_path)
    shutil.copytree(ROOT / "examples" / "02_cpp_training", tmp_path / "project")
    run("cmake", "-S", "project", "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}", "-DCMAKE_BUILD_TYPE=Release",
        cwd=tmp_path)
    run("cmake", "--build", "build", cwd=tmp_path)
    launcher = ["mpirun", "-n", "2"] if shutil.which("mpirun") else []
    out = run(*launcher, tmp_path / "build" / "train", text, cwd=tmp_path)
    lines = [line for line in out.splitlines() if line.strip()]
    assert lines[:3] == python_lines[:3], "C++ and Python run the same job"
    launch = launcher + [tmp_path / "build" / "train"]
    for arguments, message in ((["none.txt"], "train: none.txt: "), ([text, "train.stepz=1"], "train: unknown key train.stepz"),
                               ([text, "optimizer.lr=1e38", "optimizer.warmup=0"], "step 2: the loss is ")):
        said = run_failing(*launch, *arguments, cwd=tmp_path)
        assert said.count(message) == said.count("train: ") == 1 and "terminate called" not in said, said

    (tmp_path / "project" / "train.cpp").write_text(readme_program("C++, as a project").replace("200", "4"))
    run("cmake", "--build", "build", cwd=tmp_path)
    shutil.copy(text, tmp_path / "text.txt")
    out = run(*launch, cwd=tmp_path).splitlines()
    assert len(out) == 1 and out[0].startswith("validation loss "), out
    (tmp_path / "text.txt").unlink()
    said = run_failing(*launch, cwd=tmp_path)
    assert said.count("train: text.txt: ") == said.count("train: ") == 1 and "terminate called" not in said, said
    version = run(tmp_path / "prefix" / "bin" / "shoal", "--version", cwd=tmp_path)
    assert version.split()[0] == "shoal"


def test_optimizers_example(tmp_path):
    """Its output is that of its README: the arithmetic is NumPy's and elementwise FP32."""
    folder = ROOT / "examples" / "03_optimizers"
    out = run(sys.executable, folder / "fit.py", cwd=tmp_path)
    expected = re.findall(r"^    (\d+ updates.*|w \[.*)$", (folder / "README.md").read_text(), re.M)
    assert out.splitlines() == expected
