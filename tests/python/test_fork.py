"""Children of a rank's process: they are no ranks, and end without touching the job."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SHOAL_BUILD_DIR", ROOT / "build" / "cpu"))
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}

SCRIPT = """
import multiprocessing, os, sys
import numpy as np
import shoal, shoal.comm as comm

comm.init(timeout=20)
n = comm.world_size()
large = np.ones(1 << 22, dtype="f4")
comm.all_reduce(large, async_op=True).wait()

def child(what):
    pid = os.fork()
    if pid == 0:
        if what == "fails":
            sys.stderr = open(os.devnull, "w")
            raise ValueError("of the child")
        if what == "uses":
            try:
                comm.barrier()
            except shoal.CommError as e:
                sys.exit(7 if "a fork is no rank" in str(e) else 8)
        sys.exit(5)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

assert child("ends") == 5
assert child("fails") == 1
assert child("uses") == 7
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
x = np.ones(3)
comm.all_reduce(x)
assert (x == n).all()
print(f"rank {comm.rank()} is well")
"""


@pytest.mark.parametrize("launcher", ["mpirun", "shoal run"])
def test_children_are_no_ranks(launcher, tmp_path):
    command = ["mpirun", "-n", "2"] if launcher == "mpirun" else [str(BUILD / "bin" / "shoal"), "run", "-n", "2"]
    if not shutil.which(command[0]):
        pytest.skip(f"no {launcher}")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([*command, sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True,
                          env={**os.environ, **MPI}, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(line for line in done.stdout.splitlines() if "is well" in line) == ["rank 0 is well", "rank 1 is well"]
