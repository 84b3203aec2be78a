"""Token files: packing text, reading tokens, drawing samples."""
import os

from . import _core
from ._core import Sampler, TokenFile

__all__ = ["Sampler", "TokenFile", "open", "pack"]


def pack(output, inputs, suffixes=(), vocab=256):
    """Packs files, folders and globs into one token file, bytes as tokens; the report as a dict.

    suffixes: which files a folder contributes ((".py",)); none: all. Nothing is at `output` before all of it is."""
    if isinstance(inputs, (str, os.PathLike)):
        inputs = [inputs]
    return _core.pack(os.fspath(output), [os.fspath(i) for i in inputs], list(suffixes), vocab)


def open(path):
    """A packed token file, or any other file as bytes: len(f), f[first:last] as int32, f.vocab, f.verify()."""
    return _core.open_tokens(os.fspath(path))
