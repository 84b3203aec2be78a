"""shoal.comm over NumPy arrays and DLPack objects. Written for any number of ranks: pytest runs it on one, and ctest also
under mpirun. What no rank count shows alone is tested on threads by run_local."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import shoal
import shoal.comm as comm

DTYPES = ["float32", "float64", "int32", "int64", "uint8"]


@pytest.fixture(scope="module", autouse=True)
def world():
    return comm.init()


def numbers(rank, count, dtype):
    """Different on every rank, small enough that sums and products are exact."""
    return ((np.arange(count) + 3 * rank) % 3 + 1).astype(dtype)


def all_numbers(count, dtype):
    return np.stack([numbers(r, count, dtype) for r in range(comm.world_size())])


def test_world(world):
    assert comm.is_initialized() and comm.init() is world
    assert 0 <= comm.rank() < comm.world_size() == world.size
    assert 0 <= comm.local_rank() <= comm.rank()
    assert f"rank {world.rank} of {world.size}" in repr(world)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 257])
def test_all_reduce_in_place(dtype, count):
    for op, combine in (("sum", np.sum), ("max", np.max), ("min", np.min), ("product", np.prod)):
        t = numbers(comm.rank(), count, dtype)
        assert comm.all_reduce(t, op=op) is t
        np.testing.assert_array_equal(t, combine(all_numbers(count, dtype), axis=0).astype(dtype))


def test_all_reduce_average():
    t = numbers(comm.rank(), 33, "float64")
    comm.all_reduce(t, op="average")
    np.testing.assert_array_equal(t, all_numbers(33, "float64").sum(axis=0) / comm.world_size())


def test_all_reduce_async():
    t = numbers(comm.rank(), 1000, "float32").reshape(10, 100)
    work = comm.all_reduce(t, async_op=True)
    work.wait()
    assert work.is_completed()
    np.testing.assert_array_equal(t.ravel(), all_numbers(1000, "float32").sum(axis=0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_reduce_scatter(dtype):
    n = comm.world_size()
    mine = slice(comm.rank() * 5, comm.rank() * 5 + 5)
    expected = all_numbers(5 * n, dtype).sum(axis=0).astype(dtype)[mine]
    given = numbers(comm.rank(), 5 * n, dtype)
    kept = given.copy()
    np.testing.assert_array_equal(comm.reduce_scatter(given), expected)
    np.testing.assert_array_equal(given, kept)
    output = np.empty(5, dtype)
    comm.reduce_scatter(given, output, async_op=True).wait()
    np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_gather(dtype):
    t = numbers(comm.rank(), 6, dtype).reshape(2, 3)
    gathered = comm.all_gather(t)
    assert gathered.shape == (comm.world_size(), 2, 3)
    np.testing.assert_array_equal(gathered.reshape(-1, 6), all_numbers(6, dtype))
    output = np.empty_like(gathered)
    comm.all_gather(t, output, async_op=True).wait()
    np.testing.assert_array_equal(output, gathered)


def test_broadcast_from_every_root():
    for root in range(comm.world_size()):
        t = numbers(comm.rank(), 7, "int64")
        if comm.rank() == root:
            t.flags.writeable = False  # the root only reads
        assert comm.broadcast(t, root=root) is t
        np.testing.assert_array_equal(t, numbers(root, 7, "int64"))


def test_new_group_keeps_the_order_asked_for():
    backwards = list(range(comm.world_size()))[::-1]
    group = comm.new_group(backwards)
    assert group.rank == backwards.index(comm.rank())
    np.testing.assert_array_equal(comm.all_gather(np.array([comm.rank()]), group=group).ravel(), backwards)
    first = comm.new_group([0])
    assert comm.is_member(first) == bool(first) == (comm.rank() == 0)
    comm.barrier()


def test_ranks_outside_a_group_cannot_use_it():
    refused = {}

    def body(c):
        group = comm.new_group([2, 0], group=c)
        if c.rank != 1:
            assert comm.is_member(group) and group and group.size == 2
            return
        assert group is not None, "None means the world"
        assert not comm.is_member(group) and not group
        assert repr(group) == f"<shoal.comm.new_group([2, 0]) of communicator {c.name}: rank 1 of 3 is not in this group>"
        t = np.zeros(3)
        for call in (lambda: comm.all_reduce(t, group=group), lambda: comm.all_reduce(t, group=group, async_op=True),
                     lambda: comm.reduce_scatter(t, group=group), lambda: comm.all_gather(t, group=group),
                     lambda: comm.broadcast(t, group=group), lambda: comm.reduce(t, group=group),
                     lambda: comm.all_to_all(t, t, group=group), lambda: comm.send(t, 0, group=group),
                     lambda: comm.recv(t, 0, group=group), lambda: comm.barrier(group), lambda: comm.rank(group),
                     lambda: comm.world_size(group), lambda: comm.new_group([0], group=group), lambda: group.split(0, 0),
                     lambda: shoal.Trainer({"data": {"train": "text.txt"}}, group=group)):
            with pytest.raises(shoal.CommError, match=r"new_group\(\[2, 0\]\) of .*: rank 1 of 3 is not in this group, and "
                                                      "cannot use it"):
                call()
        refused[c.rank] = True

    comm.run_local(3, body)
    assert refused == {1: True}
    assert comm.is_member(None), "the world"


def test_new_group_refuses_ranks_that_are_not_there(world):
    n = comm.world_size()
    for ranks, message in (([0, n + 8], rf"rank {n + 8} is not in \[0, {n}\)"), ([-1, 0], "rank -1 is not in"),
                           ([n, n + 1], f"ranks {n}, {n + 1} are not in"), ([0, 0], "rank 0 is given more than once"),
                           ([], "no ranks given")):
        with pytest.raises(shoal.ConfigError, match=message) as caught:
            comm.new_group(ranks)
        assert str(n) in str(caught.value) and world.name in str(caught.value)
    with pytest.raises(TypeError):
        comm.new_group([0.5])


def test_names_of_torch_distributed():
    assert comm.get_rank() == comm.rank() and comm.get_world_size() == comm.world_size()
    for op, alias in (("average", "avg"), ("average", "mean"), ("product", "prod")):
        expected, t = numbers(comm.rank(), 9, "float64"), numbers(comm.rank(), 9, "float64")
        np.testing.assert_array_equal(comm.all_reduce(t, op=alias), comm.all_reduce(expected, op=op))


def test_reduce_and_all_to_all():
    n, r = comm.world_size(), comm.rank()
    root = n - 1
    t = numbers(r, 5, "int32")
    assert comm.reduce(t, root=root) is t
    np.testing.assert_array_equal(t, all_numbers(5, "int32").sum(axis=0) if r == root else numbers(r, 5, "int32"))
    output = np.full(5, -1, "int32")
    assert comm.reduce(numbers(r, 5, "int32"), output, root=root, op="max") is output
    np.testing.assert_array_equal(output, all_numbers(5, "int32").max(axis=0) if r == root else [-1] * 5)
    given = np.array([[r, peer] for peer in range(n)], "uint16")
    output = np.empty_like(given)
    assert comm.all_to_all(given, output) is output
    np.testing.assert_array_equal(output, [[peer, r] for peer in range(n)])


def both_ways(call, output):
    """output after call(output), and after its asynchronous form on a copy: they must agree."""
    again = output.copy()
    assert call(output) is output
    work = call(again, async_op=True)
    work.wait()
    assert work.is_completed()
    np.testing.assert_array_equal(again, output)
    return output


def test_gather_and_scatter():
    n, r = comm.world_size(), comm.rank()
    for root in range(n):
        t = numbers(r, 6, "float32").reshape(2, 3)
        gathered = comm.gather(t, root=root)
        if r == root:
            assert gathered.shape == (n, 2, 3)
            np.testing.assert_array_equal(gathered.reshape(n, 6), all_numbers(6, "float32"))
            both_ways(lambda o, **k: comm.gather(t, o, root=root, **k), np.empty_like(gathered))
        else:
            assert gathered is None
            assert comm.gather(t, None, root=root) is None
            comm.gather(t, None, root=root, async_op=True).wait()
        back = both_ways(lambda o, **k: comm.scatter(gathered, o, root=root, **k), np.empty_like(t))
        np.testing.assert_array_equal(back, t)


def test_unequal_parts():
    n, r = comm.world_size(), comm.rank()
    counts = [(3 * q) % 4 for q in range(n)]  # 0, 3, 2, 1, ...
    begin, total = sum(counts[:r]), sum(counts)
    part = np.full(counts[r], r, "int32")
    whole = np.repeat(np.arange(n, dtype="int32"), counts)
    np.testing.assert_array_equal(
        both_ways(lambda o, **k: comm.all_gather_v(part, o, counts, **k), np.empty(total, "int32")), whole)
    np.testing.assert_array_equal(
        both_ways(lambda o, **k: comm.reduce_scatter_v(whole, o, counts, op="max", **k), np.empty_like(part)), part)
    root = n - 1
    output = np.full(total, -1, "int32") if r == root else None
    assert comm.gather_v(part, output, counts, root=root) is output
    if r == root:
        np.testing.assert_array_equal(output, whole)
    np.testing.assert_array_equal(
        both_ways(lambda o, **k: comm.scatter_v(output, o, counts, root=root, **k), np.empty_like(part)), part)
    sent, received = [(r + q) % 3 for q in range(n)], [(q + r) % 3 for q in range(n)]
    mine = np.concatenate([np.full(c, 10 * r + q, "uint16") for q, c in enumerate(sent)])
    theirs = np.concatenate([np.full(c, 10 * q + r, "uint16") for q, c in enumerate(received)])
    np.testing.assert_array_equal(
        both_ways(lambda o, **k: comm.all_to_all_v(mine, o, sent, received, **k), np.empty_like(theirs)), theirs)
    assert begin + counts[r] <= total
    with pytest.raises(shoal.ConfigError, match=f"{n + 1} of them for {n} ranks"):
        comm.all_gather_v(part, np.empty(total, "int32"), counts + [1])
    with pytest.raises(TypeError):
        comm.all_gather_v(part, np.empty(total, "int32"), [0.5] * n)


def test_prescale():
    n, r = comm.world_size(), comm.rank()
    t = np.arange(4.0)
    assert comm.all_reduce(t, prescale=0.5 * (r + 1)) is t
    np.testing.assert_array_equal(t, np.arange(4.0) * 0.5 * n * (n + 1) / 2)
    ones = np.ones(n)
    assert comm.reduce_scatter(ones, prescale=0.25).tolist() == [0.25 * n]
    output = np.zeros(n)
    comm.reduce(ones, output, prescale=2.0)
    assert output.tolist() == ([2.0 * n] * n if r == 0 else [0.0] * n)
    with pytest.raises(shoal.ConfigError, match="0.5.*max"):
        comm.all_reduce(t, op="max", prescale=0.5)
    with pytest.raises(shoal.ConfigError, match="no average of i32"):
        comm.all_reduce(np.ones(3, "int32"), op="average")


def test_group():
    n, r = comm.world_size(), comm.rank()
    got, total = [np.empty(3) for _ in range(n)], np.ones(2)
    with comm.group() as c:
        assert c is comm.world()
        peers = list(range(n)) if r % 2 else list(range(n))[::-1]
        for peer in peers:  # every rank in an order of its own
            comm.recv(got[peer], peer)
        work = comm.all_reduce(total, async_op=True)
        for peer in peers:
            comm.send(np.full(3, 10.0 * r + peer), peer)
        assert not work.is_completed()
        with pytest.raises(shoal.CommError, match="has not ended"):
            work.wait()
    work.wait()
    assert total.tolist() == [n, n]
    for peer in range(n):
        assert got[peer].tolist() == [10.0 * peer + r] * 3
    with pytest.raises(KeyError):
        with comm.group():
            comm.all_reduce(total)
            raise KeyError("given up")
    comm.barrier()
    comm.barrier(async_op=True).wait()
    assert total.tolist() == [n, n]


def test_messages_async():
    n, r = comm.world_size(), comm.rank()
    got = np.empty(50000)
    hears = comm.recv(got, (r - 1) % n, async_op=True)
    assert not hears.is_completed()
    comm.barrier()  # nobody sends before all have looked
    comm.send(np.full(50000, float(r)), (r + 1) % n, async_op=True).wait()
    hears.wait()
    assert (got == (r - 1) % n).all()


def test_which_algorithm_runs(world):
    assert world.describe_algorithm("all_reduce", 1 << 20).startswith(world.backend)
    with pytest.raises(shoal.ConfigError, match="no operation"):
        world.describe_algorithm("shuffle", 4)


def interrupt_soon():
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


@pytest.mark.parametrize("wait", [lambda c, t: c.recv(t, c.rank), lambda c, t: c.recv_async(t, c.rank).wait()],
                         ids=["blocking", "work"])
def test_ctrl_c_ends_a_wait_on_all_ranks(wait, world):
    """Every rank waits for a message that nobody sends; the last one is interrupted."""
    mine = world.split(0, world.rank)
    last = world.rank == world.size - 1
    if last:
        interrupt_soon()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt if last else shoal.CommError, match="" if last else "interrupted"):
        wait(mine, np.empty(3))
    assert time.monotonic() - start < 30
    with pytest.raises(shoal.CommError, match="interrupted"):
        mine.barrier()
    world.barrier()


def test_ctrl_c_ends_run_local():
    code = """if True:
        import numpy, os, signal, sys, threading, shoal.comm as comm
        def body(c):
            if c.rank == 0:
                threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                c.recv(numpy.empty(3), 1)
            else:
                c.recv(numpy.empty(3), 0)
        comm.run_local(2, body)
        """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
    assert done.returncode != 0


def test_send_and_recv():
    def body(c):
        t = np.arange(3.0) + c.rank
        if c.rank == 0:
            comm.send(t, 1, group=c)
        else:
            assert comm.recv(t, 0, group=c) is t
        assert t.tolist() == [0.0, 1.0, 2.0]
        assert (comm.rank(c), comm.world_size(c)) == (c.rank, 2)

    comm.run_local(2, body, timeout=20)


@pytest.mark.parametrize("dtype", ["float16", "uint16", "uint32"])
def test_further_dtypes(dtype):
    t = numbers(comm.rank(), 4, dtype)
    np.testing.assert_array_equal(comm.all_gather(t), all_numbers(4, dtype))
    if dtype == "float16":
        np.testing.assert_array_equal(comm.all_reduce(t), all_numbers(4, dtype).sum(axis=0))
    else:
        with pytest.raises(shoal.ShapeError, match="no arithmetic on"):
            comm.all_reduce(t)


def test_what_a_star_imports():
    names = {}
    exec("from shoal.comm import *", names)
    assert set(names) - {"__builtins__"} == set(comm.__all__)
    assert not {"numpy", "sys", "atexit", "contextlib", "traceback"} & set(dir(comm))
    public = {name for name in dir(comm) if not name.startswith("_")}
    assert public == set(comm.__all__)


class Exported:
    """Anything with __dlpack__, here on a NumPy array's memory."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_memory_is_used_in_place(dtype):
    array = numbers(comm.rank(), 12, dtype).reshape(3, 4)
    comm.all_reduce(Exported(array))
    np.testing.assert_array_equal(array.ravel(), all_numbers(12, dtype).sum(axis=0).astype(dtype))


class TorchLike(Exported):
    """What torch tensors have besides."""
    requires_grad = False

    @property
    def shape(self):
        return self.array.shape

    def new_empty(self, shape):
        return TorchLike(np.empty(shape, self.array.dtype))


def test_new_arrays_are_of_the_inputs_kind():
    n = comm.world_size()
    t = numbers(comm.rank(), n, "float32")
    for wrap, kind in ((np.asarray, np.ndarray), (Exported, np.ndarray), (TorchLike, TorchLike)):
        gathered, scattered = comm.all_gather(wrap(t)), comm.reduce_scatter(wrap(t))
        assert type(gathered) is type(scattered) is kind
        if kind is TorchLike:
            gathered, scattered = gathered.array, scattered.array
        np.testing.assert_array_equal(gathered, all_numbers(n, "float32"))
        np.testing.assert_array_equal(scattered, all_numbers(n, "float32").sum(axis=0)[[comm.rank()]])


def test_a_tensor_that_requires_grad_is_refused():
    t = TorchLike(np.zeros(4, "float32"))
    t.requires_grad = True
    for call in (comm.all_reduce, comm.all_gather, comm.broadcast):
        with pytest.raises(shoal.ShapeError, match=r"requires grad.*detach\(\) it first"):
            call(t)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(numbers(comm.rank(), 12, "float32"))
    comm.all_reduce(t)
    np.testing.assert_array_equal(t.numpy(), all_numbers(12, "float32").sum(axis=0))
    with pytest.raises(shoal.ShapeError, match=r"not contiguous.*\.contiguous\(\)"):
        comm.all_reduce(torch.zeros(3, 4).t())
    with pytest.raises(shoal.ShapeError, match="detach"):
        comm.all_reduce(torch.zeros(3, requires_grad=True))
    assert comm.all_gather(torch.ones(3, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("wrap", [lambda a: a, Exported], ids=["numpy", "dlpack"])
def test_non_contiguous_is_an_error_that_says_so(wrap):
    square = np.zeros((4, 6), "float32")
    for view in (square.T, square[:, ::2], square[:, 1:3], square[::2], square[::-1]):
        with pytest.raises(shoal.ShapeError, match=r"row-major; numpy.ascontiguousarray.*\.contiguous\(\)"):
            comm.all_reduce(wrap(view))
    comm.all_reduce(wrap(square[1:3]))  # leading rows are contiguous
    comm.all_reduce(wrap(square[:1, :0].T))  # empty: strides mean nothing


def test_what_is_refused():
    with pytest.raises(shoal.ShapeError, match="complex64"):
        comm.all_reduce(np.zeros(3, "complex64"))
    with pytest.raises(shoal.ShapeError, match="native byte order"):
        comm.all_reduce(np.zeros(3, "float32").byteswap().newbyteorder())
    read_only = np.zeros(3, "float32")
    read_only.flags.writeable = False
    with pytest.raises(shoal.ShapeError, match="read-only"):
        comm.all_reduce(read_only)
    with pytest.raises(TypeError, match="NumPy array or an object with __dlpack__.*list"):
        comm.all_reduce([1.0])
    with pytest.raises(shoal.ConfigError, match='"median": expected sum, average'):
        comm.all_reduce(np.zeros(3), op="median")
    with pytest.raises(TypeError, match="needs an output"):
        comm.all_gather(np.zeros(3), async_op=True)
    with pytest.raises(TypeError, match="NumPy array or an object with __dlpack__.*NoneType"):
        comm.scatter(np.zeros(comm.world_size()), None)
    with pytest.raises(ValueError, match="cut into"):
        comm.reduce_scatter(np.float64(1))


def test_run_local_gives_every_thread_a_rank():
    sums = {}

    def body(c):
        t = np.full(4, float(c.rank + 1))
        c.all_reduce(t)
        sums[c.rank] = t.tolist()

    comm.run_local(3, body)
    assert sums == {r: [6.0] * 4 for r in range(3)}


def test_run_local_raises_the_first_exception():
    def body(c):
        if c.rank == 1:
            raise KeyError("rank 1 gives up")
        c.all_reduce(np.zeros(4))

    with pytest.raises(KeyError, match="rank 1 gives up"):
        comm.run_local(2, body)


def test_mismatch_is_named():
    """With SHOAL_CHECK=1, as in all tests, ranks compare what they are about to do."""
    def body(c):
        c.all_reduce(np.zeros(4 + c.rank, "float32"))

    with pytest.raises(shoal.CommError, match="4.*5|5.*4"):
        comm.run_local(2, body, timeout=20)


def test_a_deadline_names_who_is_missing(monkeypatch):
    monkeypatch.delenv("SHOAL_TIMEOUT", raising=False)  # it would win
    done = threading.Event()

    def body(c):
        if c.rank == 0:
            try:
                c.barrier()
            finally:
                done.set()
        else:
            done.wait(30)

    with pytest.raises(shoal.TimeoutError, match="barrier.*1") as caught:
        comm.run_local(2, body, timeout=0.5)
    assert isinstance(caught.value, TimeoutError)
