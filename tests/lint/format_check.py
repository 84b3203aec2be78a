#!/usr/bin/env python3
"""Checks that clang-format would change nothing. usage: format_check.py [--fix] [ROOT]

Versions of clang-format differ in small things, so the rule is what version 14 does (Debian 12's, and Ubuntu's
clang-format-14). Where that one is missing the check is skipped with a line that says so (exit status 77, for ctest)."""
import pathlib
import shutil
import subprocess
import sys

FOLDERS = ("include", "src", "kernels", "python", "tests", "benchmarks", "examples")


def find_tool():
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            answer = subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
            if "version 14." in answer:
                return name
    return None


def badly_formatted(tool, files):
    bad = []
    for file in files:
        text = file.read_bytes()
        made = subprocess.run([tool, f"--assume-filename={file}"], input=text, capture_output=True, check=True).stdout
        if made != text:
            bad.append(file)
    return bad


def main():
    arguments = [a for a in sys.argv[1:] if a != "--fix"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[2]).resolve()
    tool = find_tool()
    if tool is None:
        print("format: SKIPPED, clang-format 14 is not installed (Debian, Ubuntu: apt install clang-format-14)")
        return 77
    files = sorted(f for d in FOLDERS for e in ("hpp", "cpp", "cu") for f in (root / d).rglob(f"*.{e}"))
    bad = badly_formatted(tool, files)
    for file in bad:
        print(f"{file.relative_to(root)}: clang-format would change it (scripts/lint --fix does)")
        if "--fix" in sys.argv:
            subprocess.run([tool, "-i", str(file)], check=True)
    print(f"format: {len(files)} files, {len(bad)} differ ({tool}, version 14)")
    return 1 if bad and "--fix" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
