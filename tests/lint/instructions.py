#!/usr/bin/env python3
"""Checks that compiled kernels hold only what their instruction set has. usage: instructions.py ISA OBJECT...

Each object is disassembled and given back to the assembler, told to accept no more than ISA: the assembler knows which
extension every instruction needs. The lists below are what src/core/cpu_info.cpp asks the processor for. A kernel must
not define a weak function either (an inline one, from a header): the linker keeps one copy of those for the whole
library, and could keep the copy that needs AVX. Skipped (exit status 77) without GNU binutils."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ACCEPTED = {
    "generic": "generic64",
    "avx2": "generic64+avx2+fma+f16c",
    "avx512": "generic64+avx512f+avx512bw+avx512dq+avx512vl+fma+f16c",
}
# Jumps name their target in a way that the assembler does not read; the others do nothing on any processor.
NOT_ASSEMBLED = re.compile(r"(bnd |notrack |data16 |cs )*(j[a-z]+|call|nop[wl]?|endbr64|xchg +%ax,%ax)\b")


def have_tools():
    tools = all(shutil.which(t) for t in ("objdump", "as", "nm"))
    return tools and "GNU" in subprocess.run(["as", "--version"], capture_output=True, text=True).stdout


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def instructions(obj):
    for line in output("objdump", "-d", "--no-show-raw-insn", str(obj)).splitlines():
        if re.match(r" *[0-9a-f]+:\t", line):
            text = line.split("\t", 1)[1].split("#")[0].strip()
            if not NOT_ASSEMBLED.match(text):
                yield text


def violations(isa, obj):
    """The instructions that ISA lacks, each once, and the weak functions."""
    lines = list(instructions(obj))
    if not lines:
        return ["holds no instructions"]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "a.s")
        source.write_text("\n".join(lines) + "\n")
        made = subprocess.run(["as", f"-march={ACCEPTED[isa]}", "-o", str(source.with_suffix(".o")), str(source)],
                              capture_output=True, text=True)
    bad = {}
    for message in made.stderr.splitlines():
        found = re.match(r".*a\.s:(\d+): (Error.*)", message)
        if found:
            text = lines[int(found.group(1)) - 1]
            bad.setdefault(text.split()[0], f"{text}  ({found.group(2)})")
    if made.returncode and not bad:
        bad["as"] = made.stderr
    weak = [line.split(maxsplit=2)[-1] for line in output("nm", "--defined-only", "-C", str(obj)).splitlines()
            if re.match(r"[0-9a-f]+ [Wu] (?!__clang_call_terminate$)", line)]
    return list(bad.values()) + [f"weak function {name}" for name in weak]


def main():
    if not have_tools():
        print("instructions: SKIPPED, GNU binutils are not installed")
        return 77
    isa, objects = sys.argv[1], [pathlib.Path(a) for a in sys.argv[2:]]
    found = [f"{obj.name}: not {isa}: {v}" for obj in objects for v in violations(isa, obj)]
    print("\n".join(found + [f"instructions: {len(objects)} objects for {isa}, {len(found)} violations"]))
    return 1 if found or not objects else 0


if __name__ == "__main__":
    sys.exit(main())
