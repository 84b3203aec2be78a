"""The include rules of docs/architecture.md: who may include whom, and where foreign headers may appear."""
import posixpath
import re

from source import Violation

# Lowest first. Layers of one rank never include each other. The kernels lie below ops, which chooses them.
ORDER = (("core",), ("shard",), ("kernels",), ("ops",), ("comm",), ("nn",), ("parallel",), ("optim",), ("models",),
         ("data", "checkpoint"), ("train",), ("cli", "python"))
RANK = {layer: rank for rank, layers in enumerate(ORDER) for layer in layers}
INCLUDE = r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]'

# Where the headers of others may be included; everywhere else they are refused.
CUDA_PLACES = ("src/core/cuda/", "src/ops/cuda/", "src/comm/backends/nccl/", "kernels/common/", "kernels/cuda/",
               "tests/emulator/")
FOREIGN = (
    (r"mpi\.h", ("src/comm/backends/", "benchmarks/comm/", "tests/contract/")),
    (r"nccl(_device)?\.h", ("src/comm/backends/", "tests/emulator/")),
    (r"(cuda|cublas|curand|cudnn|cusparse|cusolver|nvml|nvtx|cooperative_groups|mma\.h|cub/|thrust/).*", CUDA_PLACES),
    (r"CLI/.*", ("src/cli/",)),
    (r"pybind11/.*", ("python/bindings/",)),
    (r"toml\+\+/.*", ("src/train/", "tests/")),
    (r"(gtest|gmock)/.*", ("tests/",)),
    (r"benchmark/.*", ("benchmarks/",)),
)
STANDARD = re.compile(r"[a-z_0-9]+")  # <vector>, <cstdint>: the headers of C++ have neither dot nor slash


def layer_of(path):
    """(layer, folder of parallel or None) of a file, or None where no layer's rule holds."""
    parts = path.split("/")
    if parts[:2] == ["include", "shoal"]:
        parts = parts[2:]
    elif parts[0] == "src":
        parts = parts[1:]
    elif parts[0] == "kernels":
        return ("kernels", None)
    elif parts[:2] == ["python", "bindings"]:
        return ("python", None)
    else:
        return None
    if len(parts) < 2 or parts[0] not in RANK:
        return None
    folder = parts[1] if parts[0] == "parallel" and len(parts) > 2 else None
    return (parts[0], folder)


def resolve(path, target, known):
    """The file in the project that an include names, or None."""
    here = posixpath.dirname(path)
    for base in (here, "", "include", "src", "tests", "tests/support"):
        candidate = posixpath.normpath(posixpath.join(base, target))
        if candidate in known:
            return candidate
    return None


def check_layers(sources):
    """A layer includes only what is below it; the folders of parallel do not include each other."""
    known = {s.path for s in sources}
    for source in sources:
        place = layer_of(source.path)
        if not source.is_cpp or place is None:
            continue
        layer, folder = place
        for line, match in source.find(INCLUDE):
            target = match.group(2)
            found = resolve(source.path, target, known)
            if found is None:
                if target.startswith("shoal/"):
                    yield Violation(source.path, line, "layers", f'"{target}" is not a header of this project')
                continue
            other = layer_of(found)
            if other is None:
                if not found.startswith(("python/", "kernels/")):
                    yield Violation(source.path, line, "layers", f"{layer} includes {found}, which is in no layer")
                continue
            if found.startswith("kernels/") and layer not in ("kernels", "ops"):
                yield Violation(source.path, line, "layers", f"{layer} includes {found}: kernels are included by ops")
            elif other[0] != layer and RANK[other[0]] >= RANK[layer]:
                yield Violation(source.path, line, "layers", f"{layer} includes {found}, and {other[0]} is not below it")
            elif other[0] == layer == "parallel" and folder and other[1] and folder != other[1]:
                yield Violation(source.path, line, "layers",
                                f"parallel/{folder} includes {found}; what they share is an interface in nn")


def check_public_headers(sources):
    """A public header includes public headers and the standard library, nothing else (and so no fmt)."""
    known = {s.path for s in sources}
    for source in sources:
        if not source.path.startswith("include/"):
            continue
        for line, match in source.find(INCLUDE):
            kind, target = match.groups()
            if kind == "<" and STANDARD.fullmatch(target):
                continue
            found = resolve(source.path, target, known)
            if found is None or not found.startswith("include/"):
                yield Violation(source.path, line, "public-headers",
                                f"a public header includes {target}, which is neither public nor of the standard library")


def check_foreign_headers(sources):
    """Headers of MPI, NCCL, CUDA and of single-purpose libraries stay in the folders made for them."""
    for source in sources:
        if not source.is_cpp:
            continue
        for line, match in source.find(INCLUDE):
            for pattern, places in FOREIGN:
                if re.fullmatch(pattern, match.group(2)) and not source.path.startswith(places):
                    yield Violation(source.path, line, "foreign-headers",
                                    f"{match.group(2)} may be included only below {', '.join(places)}")


def check_kernel_headers(sources):
    """kernels/cpu/*.cpp are compiled once for each instruction set: an inline function of <vector>, compiled with
    -mavx512f, could be the copy that the linker keeps for everyone. So: C headers only."""
    for source in sources:
        if not (source.path.startswith("kernels/cpu/") and source.path.endswith(".cpp")):
            continue
        for line, match in source.find(INCLUDE):
            target = match.group(2)
            if match.group(1) == "<" and STANDARD.fullmatch(target) and target not in ("cstdint", "cstddef"):
                yield Violation(source.path, line, "kernel-headers", f"a kernel includes <{target}>: C headers only")
