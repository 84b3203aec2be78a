from typing import Any, Dict

from . import comm as comm
from . import data as data
from . import errors as errors
from . import models as models
from . import optim as optim
from . import parallel as parallel
from . import train as train
from .errors import CheckpointError as CheckpointError
from .errors import CommError as CommError
from .errors import ConfigError as ConfigError
from .errors import DataError as DataError
from .errors import DeviceError as DeviceError
from .errors import Error as Error
from .errors import ShapeError as ShapeError
from .errors import TimeoutError as TimeoutError
from .errors import TrainError as TrainError
from .train import Job as Job
from .train import Metrics as Metrics
from .train import Trainer as Trainer

__version__: str

def info() -> Dict[str, Any]: ...
