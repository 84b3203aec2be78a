"""Shoal: distributed training of transformer models on a C++ core.

    import shoal
    shoal.comm.init()                                      # under mpirun: all ranks; alone: a world of one
    trainer = shoal.Trainer("job.toml", ["train.steps=100"])
    trainer.run()

The package mirrors the layers of the library. Importing it opens no socket and touches no device."""
from . import _core, comm, data, errors, models, optim, parallel, train
from .errors import (CheckpointError, CommError, ConfigError, DataError, DeviceError, Error, ShapeError, TimeoutError,
                     TrainError)
from .train import Job, Metrics, Trainer

__version__ = _core.version()


def info():
    """What this build and this machine have: {"version", "build", "features", "backends"}; a feature or backend is
    (present, detail), the detail being why where it is not."""
    return {
        "version": _core.version(),
        "build": _core.build_description(),
        "features": _core.build_features(),
        "backends": _core.comm_backends(),
    }
