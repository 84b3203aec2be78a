"""What every rule works on: the project's text files, with comments blanked out where a rule asks for it."""
import pathlib
import re
from dataclasses import dataclass
from functools import cached_property

FOLDERS = ("include", "src", "kernels", "python", "tests", "benchmarks", "examples", "cmake", "scripts", ".ci")
CPP = {".hpp", ".cpp", ".h", ".cu", ".cuh", ".inc"}
SKIPPED = {"build", "__pycache__", "runs", "node_modules", ".venv"}

# Comments, and the literals in which something that looks like a comment is none.
_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def _blank(match):
    text = match.group(0)
    return re.sub(r"[^\n]", " ", text) if text.startswith(("//", "/*")) else text


@dataclass
class Source:
    path: str  # from the root, with forward slashes
    text: str

    @property
    def is_cpp(self):
        return pathlib.PurePosixPath(self.path).suffix in CPP

    @cached_property
    def code(self):
        """The text with C++ comments replaced by blanks; line numbers stay."""
        return _TOKENS.sub(_blank, self.text) if self.is_cpp else self.text

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def find(self, pattern):
        """(line number, match) of every match in the code."""
        for match in re.finditer(pattern, self.code, re.M):
            yield self.line_of(match.start()), match


@dataclass(frozen=True)
class Violation:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.message}"


def load(root):
    """Every text file in the project's folders, and those at its root."""
    root = pathlib.Path(root)
    paths = [p for p in root.iterdir() if p.is_file()] if root.is_dir() else []
    for folder in FOLDERS:
        paths += [p for p in (root / folder).rglob("*") if p.is_file()]
    sources = []
    for path in sorted(paths):
        relative = path.relative_to(root)
        if SKIPPED & set(relative.parts[:-1]):
            continue
        try:
            sources.append(Source(relative.as_posix(), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue  # not a text file
    return sources
