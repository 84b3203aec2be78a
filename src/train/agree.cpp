#include "shoal/train/agree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shoal/core/error.hpp"
#include "train/host.hpp"

namespace shoal::train {
namespace {

enum Class : std::int32_t { none, config, shape, data, checkpoint, device, train, other };
constexpr std::size_t longest = 4096;  // bytes of a message

template <class E>
struct Together : E, Agreed {
  using E::E;
};

[[noreturn]] void raise(std::int32_t error, const std::string& text) {
  switch (error) {
    case config: throw Together<ConfigError>(text);
    case shape: throw Together<ShapeError>(text);
    case data: throw Together<DataError>(text);
    case checkpoint: throw Together<CheckpointError>(text);
    case device: throw Together<DeviceError>(text);
    case train: throw Together<TrainError>(text);
    default: throw Together<Error>(text);
  }
}

std::int32_t class_of(const std::exception& e) {
  if (dynamic_cast<const ConfigError*>(&e)) return config;
  if (dynamic_cast<const ShapeError*>(&e)) return shape;
  if (dynamic_cast<const DataError*>(&e)) return data;
  if (dynamic_cast<const CheckpointError*>(&e)) return checkpoint;
  if (dynamic_cast<const DeviceError*>(&e)) return device;
  if (dynamic_cast<const TrainError*>(&e)) return train;
  return other;
}

}  // namespace

void together(Communicator& comm, const Stream& stream, const std::function<void()>& local) {
  std::int32_t mine = none;
  std::string text;
  try {
    local();
  } catch (const CommError&) {
    throw;  // the communicator is broken: nothing can be agreed
  } catch (const std::exception& e) {
    mine = class_of(e);
    text = e.what();
  }
  const Tensor all = Tensor::empty({comm.size()}, DType::i32, stream);
  comm.all_gather(to_device<std::int32_t>(stream, {mine}), all);
  const std::vector<std::int32_t> errors = to_host<std::int32_t>(stream, all);
  const auto failed = std::find_if(errors.begin(), errors.end(), [](std::int32_t e) { return e != none; });
  if (failed == errors.end()) return;

  const int rank = static_cast<int>(failed - errors.begin());
  if (std::find(errors.begin(), errors.end(), std::int32_t{none}) != errors.end())
    text = fmt::format("rank {}: {}", rank, text);
  std::vector<std::uint8_t> bytes(longest, 0);
  std::copy_n(text.begin(), std::min(text.size(), longest), bytes.begin());
  const Tensor message = to_device(stream, bytes);
  comm.broadcast(message, rank);
  bytes = to_host<std::uint8_t>(stream, message);
  raise(*failed, std::string(bytes.begin(), std::find(bytes.begin(), bytes.end(), 0)));
}

}  // namespace shoal::train
