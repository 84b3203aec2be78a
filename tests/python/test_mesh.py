"""shoal.comm.DeviceMesh, on threads."""
import itertools

import numpy as np
import pytest
import shoal
import shoal.comm as comm


def members(group, rank):
    return list(comm.all_gather(np.array([rank]), group=group).ravel())


@pytest.mark.parametrize("sizes", [dict(dp=2, tp=2), dict(pp=2, cp=2), dict(ep=4), dict(pp=2, dp=3, tp=2)])
def test_axes(sizes):
    ranks = int(np.prod(list(sizes.values())))
    every = {axis: sizes.get(axis, 1) for axis in ("pp", "dp", "cp", "ep", "tp")}
    grid = np.arange(ranks).reshape(list(every.values()))

    def body(world):
        mesh = comm.DeviceMesh(**sizes, group=world)
        assert mesh.sizes == every and mesh.size() == ranks
        here = tuple(mesh.coordinates.values())
        assert grid[here] == world.rank == mesh.rank_of() == mesh.rank_of(**mesh.coordinates)
        assert mesh.coordinates_of(world.rank) == mesh.coordinates
        for number, axis in enumerate(every):
            line = grid[tuple(slice(None) if i == number else x for i, x in enumerate(here))]
            group = mesh.axis(axis)
            assert mesh.size(axis) == group.size == every[axis] and group.rank == mesh.coordinate(axis)
            assert members(group, world.rank) == list(line)
        for a, b in itertools.combinations(range(5), 2):
            names = [list(every)[a], list(every)[b]]
            plane = grid[tuple(slice(None) if i in (a, b) else x for i, x in enumerate(here))]
            group = mesh.flatten(*names)
            assert mesh.size(*names) == group.size
            assert members(group, world.rank) == list(plane.ravel())

    comm.run_local(ranks, body)


def test_refusals():
    def body(world):
        with pytest.raises(shoal.ConfigError, match=r"pp 1 x dp 2 x cp 1 x ep 1 x tp 1 = 2 ranks, but the world has 4; pp 2"):
            comm.DeviceMesh(dp=2, group=world)
        mesh = comm.DeviceMesh(dp=4, group=world)
        for call in (lambda: mesh.axis("sp"), lambda: mesh.flatten("dp", "sp"), lambda: mesh.rank_of(sp=1)):
            with pytest.raises(shoal.ConfigError, match="axis sp: expected pp, dp, cp, ep or tp"):
                call()
        with pytest.raises(shoal.ConfigError, match="coordinate dp 4 is not in the mesh"):
            mesh.rank_of(dp=4)
        assert "dp 4" in repr(mesh)

    comm.run_local(4, body)


def test_of_the_world():
    world = comm.init()
    mesh = comm.DeviceMesh(dp=world.size)
    assert mesh.world.size == world.size and mesh.axis("dp").rank == world.rank
