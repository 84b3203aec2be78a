"""Collectives over NumPy arrays and anything with __dlpack__ (float32, float64, int32, int64, uint8).

    import shoal.comm as comm
    comm.init()                      # under mpirun: all ranks; alone: a world of one
    comm.all_reduce(gradient, op="average")

Arrays must be contiguous: they are used where they lie, never copied. Every rank of a communicator makes the same calls
in the same order. With async_op=True a call returns a Work at once; the arrays may be read (and those written to may be
changed) after its wait()."""
import atexit
import sys
import traceback

import numpy

from . import _core
from .errors import CommError, ShapeError
from ._core import Communicator, Work, comm_backends, run_local

_world = None


def init(backend="auto", timeout=None):
    """Joins the world of all ranks. backend: "auto", "self" or "mpi"; timeout: seconds any wait may take.

    Collective. From then on an exception that nobody catches ends the other ranks' waits with its message, so that the
    whole job ends. Calling it again changes nothing."""
    global _world
    if _world is None:
        _world = _core.make_world(backend, timeout)
        _end_job_on_exception()
        atexit.register(shutdown)
    return _world


def world():
    """The communicator of all ranks; init() makes it."""
    if _world is None:
        raise CommError("shoal.comm.init() has not been called")
    return _world


def is_initialized():
    return _world is not None


def shutdown():
    """Leaves the world. Collective; done at exit as well."""
    global _world
    _world = None


def _end_job_on_exception():
    previous = sys.excepthook

    def hook(kind, value, trace):
        if _world is None or issubclass(kind, (KeyboardInterrupt, SystemExit)):
            previous(kind, value, trace)
            return
        sys.stdout.flush()
        # Under MPI this does not return: it ends the other ranks, and the cause is the message shown last.
        _core.end_failed_job("".join(traceback.format_exception(kind, value, trace)).rstrip())

    sys.excepthook = hook


def rank():
    return world().rank


def world_size():
    return world().size


def local_rank():
    """This rank among those of its host, as the launcher numbers them."""
    return _core.local_rank()


def new_group(ranks, group=None):
    """The communicator of the given ranks, in that order; None on the others. All ranks call it."""
    comm = group or world()
    ranks = list(ranks)
    member = comm.rank in ranks
    return comm.split(0 if member else -1, ranks.index(comm.rank) if member else 0)


def all_reduce(t, op="sum", group=None, async_op=False):
    """In place: t becomes the sum (average, min, max, product) over all ranks, the same bits on each. Returns t, or a Work."""
    comm = group or world()
    if async_op:
        return comm.all_reduce_async(t, op)
    comm.all_reduce(t, op)
    return t


def reduce_scatter(input, output=None, op="sum", group=None, async_op=False):
    """output = this rank's part of the reduced input, which is cut along its first dimension. Returns output, or a Work
    (which needs an output of the caller's)."""
    comm = group or world()
    if output is None:
        _needs_output("reduce_scatter", async_op)
        array = numpy.asarray(input)
        if array.ndim == 0 or array.shape[0] % comm.size:
            raise ShapeError(f"reduce_scatter: a shape of {array.shape} is not cut into {comm.size} ranks' parts")
        output = numpy.empty((array.shape[0] // comm.size,) + array.shape[1:], array.dtype)
    if async_op:
        return comm.reduce_scatter_async(input, output, op)
    comm.reduce_scatter(input, output, op)
    return output


def all_gather(input, output=None, group=None, async_op=False):
    """output[r] = rank r's input. Returns output (a new array of shape (size, *input.shape) where none is given), or a Work."""
    comm = group or world()
    if output is None:
        _needs_output("all_gather", async_op)
        array = numpy.asarray(input)
        output = numpy.empty((comm.size,) + array.shape, array.dtype)
    if async_op:
        return comm.all_gather_async(input, output)
    comm.all_gather(input, output)
    return output


def broadcast(t, root=0, group=None, async_op=False):
    """In place: t becomes root's. Returns t, or a Work."""
    comm = group or world()
    if async_op:
        return comm.broadcast_async(t, root)
    comm.broadcast(t, root)
    return t


def barrier(group=None):
    """Returns when all ranks have called it."""
    (group or world()).barrier()


def _needs_output(operation, async_op):
    if async_op:
        raise TypeError(f"{operation}(async_op=True) needs an output array")
