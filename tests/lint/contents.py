"""Rules on what files contain: length, environment variables, ways to end or print, compiler flags."""
import pathlib
import re

from source import CPP, Violation

LIMIT = 500
CODE = CPP | {".py", ".pyi", ".cmake", ".sh", ""}
LIBRARY = ("include/", "src/", "kernels/", "python/bindings/")
VARIABLE = r"SHOAL_[A-Z][A-Z0-9_]*"


def check_length(sources):
    """A file holds one idea: past 500 lines it is split."""
    for source in sources:
        path = pathlib.PurePosixPath(source.path)
        if (path.suffix in CODE or path.name == "CMakeLists.txt") and path.name != "LICENSE":
            lines = source.text.count("\n") + (not source.text.endswith("\n") and source.text != "")
            if lines > LIMIT:
                yield Violation(source.path, lines, "length", f"{lines} lines, more than {LIMIT}: split it")


def check_environment(sources):
    """SHOAL_ variables are read in core/env.cpp alone, launchers' variables in src/comm alone."""
    for source in sources:
        if not source.path.startswith(LIBRARY) or source.path == "src/core/env.cpp":
            continue
        in_comm = source.path.startswith("src/comm/")
        for line, match in source.find(r"\b(?:(?:secure_)?getenv|env::get)\s*\(\s*(\"SHOAL_)?|\benviron\b"):
            if match.group(1) or not in_comm:
                yield Violation(source.path, line, "environment",
                                "the environment is read in src/core/env.cpp (launchers' variables in src/comm)")
    for source in sources:
        if source.path == "src/core/env.cpp":
            for line, match in source.find(r'\bget(?:env)?\(\s*"(?!SHOAL_)([^"]*)"'):
                yield Violation(source.path, line, "environment", f"{match.group(1)} does not begin with SHOAL_")


def read_variables(sources):
    """Every SHOAL_ variable that something reads or sets, with one place of it."""
    places = {}
    for source in sources:
        if source.path == "src/core/env.cpp":
            pattern = rf'"({VARIABLE})"'
        elif source.path.startswith(("scripts/", ".ci/")):
            pattern = rf"\$\{{?({VARIABLE})|\bexport\s+({VARIABLE})|\benviron\S*\s*\[?\(?\s*[\"']({VARIABLE})"
        elif source.path.endswith(".py") and not source.path.startswith("tests/lint/"):
            pattern = rf"\benviron\S*?[\[(]\s*[\"']({VARIABLE})"
        else:
            continue
        for line, match in source.find(pattern):
            places.setdefault(next(filter(None, match.groups())), (source.path, line))
    return places


def check_documented(root, sources):
    """docs/environment.md lists every variable, and no other."""
    page = pathlib.Path(root) / "docs" / "environment.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    listed = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(rf"\|\s*`({VARIABLE})`", line)
        if match:
            listed[match.group(1)] = number
    places = read_variables(sources)
    for name, (path, line) in sorted(places.items()):
        if name not in listed:
            yield Violation(path, line, "documented", f"{name} is not listed in docs/environment.md")
    for name, number in listed.items():
        if name not in places:
            yield Violation("docs/environment.md", number, "documented", f"nothing reads {name}")


def check_no_exit(sources):
    """The library throws; it never ends the process and never prints where the caller did not ask."""
    ends = r"\bstd::(?:exit|abort|terminate|quick_exit|_Exit)\b|(?<![\w.>:])(?:_exit|exit|quick_exit)\s*\("
    prints = r"\bstd::(?:cout|cerr|clog|printf|puts)\b|(?<![\w:])(?:printf|puts|putchar)\s*\(|\bfmt::print\b"
    for source in sources:
        if not source.path.startswith(LIBRARY) or source.path.startswith("src/cli/"):
            continue
        for line, match in source.find(ends):
            yield Violation(source.path, line, "no-exit", f"{match.group(0).strip()}: the library throws instead")
        if source.path != "src/core/log.cpp":
            for line, match in source.find(prints):
                yield Violation(source.path, line, "no-print", f"{match.group(0).strip()}: only src/cli prints")


def check_flags(sources):
    """No flag that changes arithmetic or ties the library to the machine that built it."""
    for source in sources:
        path = pathlib.PurePosixPath(source.path)
        if path.suffix in (".cmake", ".json", ".toml") or path.name == "CMakeLists.txt":
            code = re.sub(r"#[^\n]*", lambda m: " " * len(m.group(0)), source.text)
            for match in re.finditer(r"-ffast-math|-Ofast|-funsafe-math\S*|-march=native|-mtune=native", code):
                yield Violation(source.path, source.line_of(match.start()), "flags", f"{match.group(0)} is not used here")


def check_unfinished(sources):
    """No notes of unfinished work: what is missing is said in README.md."""
    for source in sources:
        if source.path.startswith("tests/lint/"):
            continue
        for match in re.finditer(r"\b(TODO|FIXME|XXX)\b", source.text):
            yield Violation(source.path, source.line_of(match.start()), "unfinished", f"{match.group(1)} is left in the text")


def check_constructors(sources):
    """pybind11 registers a new object inside a constructor's call guard, which must therefore not give the lock away."""
    for source in sources:
        if not source.path.startswith("python/bindings/"):
            continue
        for line, match in source.find(r"\bpy::init\b(?:(?!\.def)[\s\S])*?\bcall_guard\b"):
            yield Violation(source.path, line, "constructors",
                            "py::init with a call_guard registers the object without the lock: release it in the body")
