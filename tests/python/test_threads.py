"""Ranks that are threads of one interpreter."""
import shoal
import shoal.comm as comm


def test_threads_make_objects_at_the_same_time():
    def make(c):
        for _ in range(200):
            assert comm.DeviceMesh(group=shoal._core.make_self()).world.size == 1

    comm.run_local(8, make)
