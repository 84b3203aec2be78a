"""The exceptions of the library: each is a shoal.Error and the built-in that it resembles."""
import builtins


class Error(Exception):
    """Whatever the library throws."""
    on_all_ranks = False  # whether every rank of the communicator raised the same


class ConfigError(Error, ValueError):
    """The user's numbers or keys do not make a job."""


class ShapeError(Error, ValueError):
    """An array has another shape, dtype, layout or device than the operation needs."""


class CommError(Error, RuntimeError):
    """A collective failed; names rank, communicator, operation and peer."""


class TimeoutError(CommError, builtins.TimeoutError):
    """A wait passed its deadline; names the operation and the ranks that had not arrived."""


class DataError(Error, ValueError):
    """A data file is not what it should be."""


class CheckpointError(Error, ValueError):
    """A checkpoint or weights file is not what it should be."""


class DeviceError(Error, RuntimeError):
    """The device or its runtime refused a call."""


class TrainError(Error, RuntimeError):
    """Training cannot go on: not a number in the loss, and the like."""
