"""Collectives over NumPy arrays and anything with __dlpack__ in the host's memory, such as torch tensors.

    import shoal.comm as comm
    comm.init()                      # under mpirun: all ranks; alone: a world of one
    comm.all_reduce(gradient, op="average")

dtypes: float32, float64, float16, int32, int64, uint8, and through DLPack bfloat16, which NumPy does not have. What only
moves data (all_gather, broadcast, gather, scatter, all_to_all, send, recv) takes uint16 and uint32 too. op: "sum",
"average" (also "avg", "mean"; of floats only), "min", "max", "product" (also "prod"). prescale (with op "sum", floats
only) multiplies this rank's input before it is summed; each rank may give another one, and all must give one.

The _v forms take parts of unequal size: counts[r] elements for rank r, one after another, the same list on every rank.

Arrays must be contiguous: they are used where they lie, never copied. Every rank of a communicator makes the same calls
in the same order. With async_op=True a call returns a Work at once; the arrays may be read (and those written to may be
changed) after its wait(). What is called within `with group():` starts together at its end.

Ctrl-C ends a wait with KeyboardInterrupt, and the other ranks' waits with a CommError that says so. Where it strikes between
a call and its wait(), the arrays stay in use: wait() for them, or leave them alone.

A child of a rank's process (os.fork, multiprocessing) is no rank: its calls raise CommError, and its end disturbs nobody."""
import atexit as _atexit
import contextlib as _contextlib
import operator as _operator
import os as _os
import sys as _sys
import time as _time
import traceback as _traceback

import numpy as _numpy

from . import _core, errors as _errors
from ._core import Communicator, Work, comm_backends, run_local

__all__ = ["Communicator", "DeviceMesh", "Work", "all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v",
           "barrier", "broadcast", "comm_backends", "gather", "gather_v", "get_rank", "get_world_size", "group", "init",
           "is_initialized", "is_member", "local_rank", "new_group", "rank", "recv", "reduce", "reduce_scatter",
           "reduce_scatter_v", "run_local", "scatter", "scatter_v", "send", "shutdown", "world", "world_size"]

_world = None
_process = None  # a child of it (os.fork, multiprocessing) is no rank, and ends like any program


def init(backend="auto", timeout=None, mpi_comm=None):
    """Joins the world of all ranks. backend: "auto", "self" or "mpi"; timeout: seconds any wait may take. mpi_comm: the
    ranks of an MPI communicator of your own instead, as its integer (mpi4py: communicator.py2f()).

    Collective. From then on an exception that nobody catches ends the other ranks' waits with its message, so that the
    whole job ends. Calling it again changes nothing."""
    global _world, _process
    if _world is None:
        _process = _os.getpid()
        _world = _core.make_world(backend, timeout) if mpi_comm is None else _core.adopt_mpi(mpi_comm, timeout)
        _end_job_on_exception()
        _atexit.register(shutdown)
    return _world


def world():
    """The communicator of all ranks; init() makes it."""
    if _world is None:
        raise _errors.CommError("shoal.comm.init() has not been called")
    return _world


def is_initialized():
    return _world is not None


def shutdown():
    """Leaves the world. Collective; done at exit as well."""
    global _world
    _world = None


def _end_job_on_exception():
    previous = _sys.excepthook

    def hook(kind, value, trace):
        if _os.getpid() != _process:
            previous(kind, value, trace)
            return
        if _world is not None and issubclass(kind, KeyboardInterrupt):
            _world.abort("KeyboardInterrupt")  # the others end with this, and this rank as Python ends
        if _world is None or issubclass(kind, (KeyboardInterrupt, SystemExit)):
            previous(kind, value, trace)
            return
        _sys.stdout.flush()
        if getattr(value, "on_all_ranks", False):  # they all raised it: one of them shows it
            if _world.rank == 0:
                previous(kind, value, trace)
            try:
                _world.barrier()  # nobody ends, and so ends the job, before rank 0 has shown it
            except _errors.Error:
                pass
            return
        # Where every rank fails alike, in its own code, rank 0 shows it and ends the others before they do.
        if _world.rank != 0 and not isinstance(value, _errors.CommError):
            _time.sleep(1)
        # Under MPI this does not return: it ends the other ranks, and the cause is the message shown last.
        _core.end_failed_job("".join(_traceback.format_exception(kind, value, trace)).rstrip())

    _sys.excepthook = hook


class _NotAMember:
    """What new_group returns on ranks outside the group: whatever needs a communicator refuses it, and it is false."""

    def __init__(self, ranks, comm):
        self._what = f"new_group({ranks}) of communicator {comm.name}: rank {comm.rank} of {comm.size} is not in this group"

    def __bool__(self):
        return False

    def __repr__(self):
        return f"<shoal.comm.{self._what}>"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise _errors.CommError(f"{self._what}, and cannot use it ({name})")


def is_member(group):
    """Whether this rank is in what new_group returned. None is the world, of which every rank is a member."""
    return not isinstance(group, _NotAMember)


def _comm(group):
    return world() if group is None else group


def rank(group=None):
    return _comm(group).rank


def world_size(group=None):
    return _comm(group).size


get_rank, get_world_size = rank, world_size  # their names in torch.distributed


def local_rank():
    """This rank among those of its host, as the launcher numbers them."""
    return _core.local_rank()


def new_group(ranks, group=None):
    """The communicator of the given ranks, in that order. All ranks call it, with the same list. The others get an object
    that is false, for which is_member() is false, and with which any operation is a CommError (None means the world).

    Ranks outside [0, size), repeated ones and an empty list are a ConfigError."""
    comm = _comm(group)
    ranks = [_operator.index(r) for r in ranks]
    if not ranks:
        raise _errors.ConfigError(f"new_group: no ranks given, of the {comm.size} of communicator {comm.name}")
    outside = [r for r in ranks if not 0 <= r < comm.size]
    if outside:
        raise _errors.ConfigError(f"new_group({ranks}): {_named(outside)} not in [0, {comm.size}), the ranks of "
                                  f"communicator {comm.name} of size {comm.size}")
    repeated = sorted({r for r in ranks if ranks.count(r) > 1})
    if repeated:
        raise _errors.ConfigError(f"new_group({ranks}): {_named(repeated)} given more than once, on communicator "
                                  f"{comm.name} of size {comm.size}")
    member = comm.rank in ranks
    made = comm.split(0 if member else -1, ranks.index(comm.rank) if member else 0)
    return made if member else _NotAMember(ranks, comm)


class DeviceMesh(_core.DeviceMesh):
    """Ranks in a grid of the axes pp, dp, cp, ep and tp (tp fastest), and the communicators along them.

        mesh = comm.DeviceMesh(dp=2, tp=4)                      # of 8 ranks
        comm.all_reduce(x, group=mesh.axis("tp"))
        comm.all_reduce(g, group=mesh.flatten("dp", "cp"))      # both axes as one

    Collective. Sizes whose product is not the number of ranks are a ConfigError that names every factor and the changes
    that would fit."""

    def __init__(self, pp=1, dp=1, cp=1, ep=1, tp=1, group=None):
        super().__init__(_comm(group), pp, dp, cp, ep, tp)

    def size(self, *axes):
        """How many ranks the axes have together; the ranks of the mesh where none is named."""
        return super().size(axes or ("pp", "dp", "cp", "ep", "tp"))

    def rank_of(self, **coordinates):
        """The rank at these coordinates; those that are left out are this rank's own."""
        return super().rank_of(coordinates)

    def flatten(self, *axes):
        """The communicator of the ranks that differ from this one along these axes only. The first call for axes of more
        than one rank is collective."""
        return super().flatten(axes)


def all_reduce(t, op="sum", group=None, async_op=False, prescale=None):
    """In place: t becomes the sum (average, min, max, product) over all ranks, the same bits on each. Returns t, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.all_reduce_async(t, op, prescale)
    comm.all_reduce(t, op, prescale)
    return t


def reduce_scatter(input, output=None, op="sum", group=None, async_op=False, prescale=None):
    """output = this rank's part of the reduced input, which is cut along its first dimension. Returns output, or a Work
    (which needs an output of the caller's). Where no output is given it is a new array: of NumPy, or a torch tensor for a
    torch tensor."""
    comm = _comm(group)
    if output is None:
        _needs_output("reduce_scatter", async_op)
        like, shape = _template(input)
        if not shape or shape[0] % comm.size:
            raise _errors.ShapeError(f"reduce_scatter: a shape of {shape} is not cut into {comm.size} ranks' parts")
        output = _new(like, (shape[0] // comm.size,) + shape[1:])
    if async_op:
        return comm.reduce_scatter_async(input, output, op, prescale)
    comm.reduce_scatter(input, output, op, prescale)
    return output


def reduce_scatter_v(input, output, counts, op="sum", group=None, async_op=False, prescale=None):
    """output = the counts[rank()] elements of the reduced input that are this rank's. Returns output, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.reduce_scatter_v_async(input, output, counts, op, prescale)
    comm.reduce_scatter_v(input, output, counts, op, prescale)
    return output


def all_gather(input, output=None, group=None, async_op=False):
    """output[r] = rank r's input. Returns output, or a Work (which needs an output of the caller's). Where no
    output is given it is a new array of shape (size, *input.shape): of NumPy, or a torch tensor for a torch tensor."""
    comm = _comm(group)
    if output is None:
        _needs_output("all_gather", async_op)
        like, shape = _template(input)
        output = _new(like, (comm.size,) + shape)
    if async_op:
        return comm.all_gather_async(input, output)
    comm.all_gather(input, output)
    return output


def all_gather_v(input, output, counts, group=None, async_op=False):
    """output = the ranks' inputs, of counts[r] elements each, one after another. Returns output, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.all_gather_v_async(input, output, counts)
    comm.all_gather_v(input, output, counts)
    return output


def broadcast(t, root=0, group=None, async_op=False):
    """In place: t becomes root's. Returns t, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.broadcast_async(t, root)
    comm.broadcast(t, root)
    return t


def reduce(input, output=None, root=0, op="sum", group=None, async_op=False, prescale=None):
    """On root, output (where none is given: input, in place) becomes the reduced input; elsewhere nothing is written.
    Returns output, or a Work."""
    comm = _comm(group)
    output = input if output is None else output
    if async_op:
        return comm.reduce_async(input, output, root, op, prescale)
    comm.reduce(input, output, root, op, prescale)
    return output


def gather(input, output=None, root=0, group=None, async_op=False):
    """On root, output[r] = rank r's input; where none is given it is a new array, as all_gather's. Elsewhere output is
    left alone, and may be None. Returns output, or a Work."""
    comm = _comm(group)
    if output is None and comm.rank == root:
        _needs_output("gather", async_op)
        like, shape = _template(input)
        output = _new(like, (comm.size,) + shape)
    if async_op:
        return comm.gather_async(input, output, root)
    comm.gather(input, output, root)
    return output


def gather_v(input, output, counts, root=0, group=None, async_op=False):
    """On root, output = the ranks' inputs, of counts[r] elements each, one after another. Elsewhere output is left alone,
    and may be None. Returns output, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.gather_v_async(input, output, counts, root)
    comm.gather_v(input, output, counts, root)
    return output


def scatter(input, output, root=0, group=None, async_op=False):
    """output = root's input[rank()]. Elsewhere than on root, input is left alone and may be None. Returns output, or a
    Work."""
    comm = _comm(group)
    if async_op:
        return comm.scatter_async(input, output, root)
    comm.scatter(input, output, root)
    return output


def scatter_v(input, output, counts, root=0, group=None, async_op=False):
    """output = the counts[rank()] elements of root's input that are this rank's. Elsewhere than on root, input is left
    alone and may be None. Returns output, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.scatter_v_async(input, output, counts, root)
    comm.scatter_v(input, output, counts, root)
    return output


def all_to_all(input, output, group=None, async_op=False):
    """output[r] = rank r's input[rank()]: both are cut along their first dimension into one part a rank. Returns output,
    or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.all_to_all_async(input, output)
    comm.all_to_all(input, output)
    return output


def all_to_all_v(input, output, send_counts, recv_counts, group=None, async_op=False):
    """Sends send_counts[r] elements of input to each rank r, and receives recv_counts[r] from it into output. Returns
    output, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.all_to_all_v_async(input, output, send_counts, recv_counts)
    comm.all_to_all_v(input, output, send_counts, recv_counts)
    return output


def send(t, peer, group=None, async_op=False):
    """Sends t to the rank `peer`, which calls recv with as many elements of the same dtype. Returns None, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.send_async(t, peer)
    comm.send(t, peer)


def recv(t, peer, group=None, async_op=False):
    """In place: t becomes what the rank `peer` sends. Returns t, or a Work."""
    comm = _comm(group)
    if async_op:
        return comm.recv_async(t, peer)
    comm.recv(t, peer)
    return t


def barrier(group=None, async_op=False):
    """Returns when all ranks have called it. With async_op=True a Work, complete when they have."""
    comm = _comm(group)
    if async_op:
        return comm.barrier_async()
    comm.barrier()


@_contextlib.contextmanager
def group(comm=None):
    """Operations on the communicator (the world, where none is given) that this thread calls in a `with group():` start
    together at its end and none waits before: sends and receives may be in any order on different ranks. At the end those
    without async_op are done. An exception within drops them all."""
    comm = _comm(comm)
    comm.group_start()
    try:
        yield comm
    except BaseException:
        comm.group_cancel()
        raise
    comm.group_end()


def _named(ranks):
    numbers = ", ".join(map(str, ranks))
    return f"rank {numbers} is" if len(ranks) == 1 else f"ranks {numbers} are"


def _template(input):
    """What a new array like the input is made from, a torch tensor or a NumPy array, and its shape."""
    if not isinstance(input, _numpy.ndarray) and not hasattr(input, "new_empty"):
        input = _numpy.from_dlpack(input) if hasattr(input, "__dlpack__") else _numpy.asarray(input)
    return input, tuple(input.shape)


def _new(like, shape):
    """An uninitialised array of like's kind and dtype; new_empty is torch's."""
    return like.new_empty(shape) if hasattr(like, "new_empty") else _numpy.empty(shape, like.dtype)


def _needs_output(operation, async_op):
    if async_op:
        raise TypeError(f"{operation}(async_op=True) needs an output array")
