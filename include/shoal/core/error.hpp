// The exceptions of the library. Every message names the values involved; the library never calls exit
// or abort and never prints an error itself. In Python they are subclasses of shoal.Error and of the
// built-in named beside each.
#pragma once
#include <stdexcept>
#include <string>

namespace shoal {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The user's numbers or keys do not make a job. (ValueError)
class ConfigError : public Error {
  using Error::Error;
};
// A tensor has another shape, dtype or device than the operation needs. (ValueError)
class ShapeError : public Error {
  using Error::Error;
};
// A collective failed: the message names rank, communicator, operation and peer. (RuntimeError)
class CommError : public Error {
  using Error::Error;
};
// A wait passed its deadline: names the operation and the ranks that had not arrived. (TimeoutError)
class TimeoutError : public CommError {
  using CommError::CommError;
};
// A data file is not what it should be: names file, offset, what was expected and found. (ValueError)
class DataError : public Error {
  using Error::Error;
};
// A checkpoint or weights file is not what it should be: as DataError. (ValueError)
class CheckpointError : public Error {
  using Error::Error;
};
// The device or its runtime refused a call: names the call and its text. (RuntimeError)
class DeviceError : public Error {
  using Error::Error;
};
// Training cannot go on: NaN in the loss, and the like; names step, rank and layer. (RuntimeError)
class TrainError : public Error {
  using Error::Error;
};

}  // namespace shoal
