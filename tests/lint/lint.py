#!/usr/bin/env python3
"""Checks the rules on the source tree. usage: lint.py [ROOT]; prints each violation as file:line: [rule] why."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import contents
import layers
from source import load


def violations(root):
    sources = load(root)
    found = []
    for rule in (layers.check_layers, layers.check_public_headers, layers.check_foreign_headers,
                 layers.check_kernel_headers,
                 contents.check_length, contents.check_environment, contents.check_no_exit,
                 contents.check_flags, contents.check_unfinished, contents.check_constructors):
        found += rule(sources)
    found += contents.check_documented(root, sources)
    return sources, sorted(found, key=lambda v: (v.path, v.line))


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    sources, found = violations(root)
    for violation in found:
        print(violation)
    print(f"lint: {len(sources)} files, {len(found)} violations")
    if not any(s.path.startswith("src/") for s in sources):
        print(f"lint: {root} holds no src/: is this the root of the project?")
        return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
