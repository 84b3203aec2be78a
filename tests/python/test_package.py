"""The package as a whole: what importing it does, its errors, its stubs, info()."""
import builtins
import pathlib
import subprocess
import sys

import pytest
import shoal

PACKAGE = pathlib.Path(shoal.__file__).parent


def test_version_and_info():
    info = shoal.info()
    assert info["version"] == shoal.__version__ == "0.1.0"
    assert info["build"]
    for present, detail in info["features"].values():
        assert present or detail, "what is missing says why"
    assert info["features"]["python"][0]


def test_one_version_everywhere():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert f'\nversion = "{shoal.__version__}"\n' in (root / "pyproject.toml").read_text()
    assert f"\n## {shoal.__version__}" in (root / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name, builtin", [
    ("ConfigError", ValueError), ("ShapeError", ValueError), ("DataError", ValueError), ("CheckpointError", ValueError),
    ("CommError", RuntimeError), ("DeviceError", RuntimeError), ("TrainError", RuntimeError),
    ("TimeoutError", builtins.TimeoutError)])
def test_errors_are_also_builtins(name, builtin):
    kind = getattr(shoal, name)
    assert issubclass(kind, shoal.Error) and issubclass(kind, builtin)
    assert str(kind("what happened")) == "what happened"


def test_timeout_is_a_comm_error():
    assert issubclass(shoal.TimeoutError, shoal.CommError)


def test_import_opens_nothing():
    """No socket and no device file in the process's descriptors, and no thread but the first."""
    code = ("import numpy, os; before = set(os.listdir('/proc/self/fd')); threads = len(os.listdir('/proc/self/task'))\n"
            "import shoal\n"
            "new = set(os.listdir('/proc/self/fd')) - before\n"
            "links = [os.readlink(f'/proc/self/fd/{n}') for n in new if os.path.lexists(f'/proc/self/fd/{n}')]\n"
            "print([l for l in links if l.startswith(('socket:', '/dev/', 'anon_inode:'))],\n"
            "      len(os.listdir('/proc/self/task')) - threads)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    assert out.stdout.split() == ["[]", "0"], out.stdout


def test_every_module_has_a_stub():
    modules = {p.stem for p in PACKAGE.glob("*.py")}
    stubs = {p.stem for p in PACKAGE.glob("*.pyi")}
    assert (PACKAGE / "py.typed").exists()
    assert {m for m in modules if not m.startswith("_") or m == "__init__"} <= stubs


def test_stubs_name_what_is_there():
    """Every top-level name of a stub exists in its module."""
    import ast
    import importlib
    for stub in PACKAGE.glob("*.pyi"):
        module = importlib.import_module("shoal" if stub.stem == "__init__" else f"shoal.{stub.stem}")
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                assert hasattr(module, node.name), f"{stub.name}: {node.name}"
                if isinstance(node, ast.ClassDef):
                    for member in node.body:
                        if isinstance(member, ast.FunctionDef):
                            assert hasattr(getattr(module, node.name), member.name), f"{node.name}.{member.name}"
