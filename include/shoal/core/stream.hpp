// Streams and events: the order of work on a device.
//
// A Stream is a queue whose tasks run one after another. On the CPU it is a worker thread with a queue,
// but work given to an idle stream runs in the calling thread at once, so that ordinary CPU code pays
// nothing for it. Both classes are handles (copies refer to the same stream); a moved-from handle is empty.
#pragma once
#include <functional>
#include <memory>

#include "shoal/core/allocator.hpp"
#include "shoal/core/device.hpp"

namespace shoal {

class EventImpl;
class StreamImpl;

class Event {
 public:
  Event() = default;  // empty: complete
  explicit Event(std::shared_ptr<EventImpl> impl) : impl_(std::move(impl)) {}
  bool query() const;        // true when the work before it is done; never blocks
  void synchronize() const;  // blocks the host
  EventImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<EventImpl>& shared() const { return impl_; }

 private:
  std::shared_ptr<EventImpl> impl_;
};

class Stream {
 public:
  Stream() = default;
  // A new stream whose tensors come from `allocator` (the device's default when null).
  static Stream create(Device device, std::shared_ptr<Allocator> allocator = nullptr);

  Device device() const;
  const std::shared_ptr<Allocator>& allocator() const;
  Event record() const;  // an event that completes with the work given so far
  void wait(
      const Event& event) const;  // later work of this stream starts after `event`; never blocks the host
  void synchronize() const;       // blocks the host; rethrows what a task threw
  // Runs a host function in the order of the stream. It must not touch this stream.
  void host_task(std::function<void()> task) const;
  bool empty() const { return impl_ == nullptr; }
  StreamImpl* impl() const { return impl_.get(); }

 private:
  explicit Stream(std::shared_ptr<StreamImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<StreamImpl> impl_;
};

// What a device implements.
class EventImpl {
 public:
  virtual ~EventImpl() = default;
  virtual bool query() const = 0;
  virtual void synchronize() const = 0;
};

class StreamImpl {
 public:
  virtual ~StreamImpl() = default;
  virtual Device device() const = 0;
  virtual const std::shared_ptr<Allocator>& allocator() const = 0;
  virtual std::shared_ptr<EventImpl> record() = 0;
  virtual void wait(const std::shared_ptr<EventImpl>& event) = 0;
  virtual void synchronize() = 0;
  virtual void host_task(std::function<void()> task) = 0;
};

}  // namespace shoal
