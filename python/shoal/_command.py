"""The shoal command of an installed package: becomes the executable that lies in it."""
import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin" / "shoal"
    os.execv(program, [str(program), *sys.argv[1:]])
