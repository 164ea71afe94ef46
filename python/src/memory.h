// Who owns what: allocators and their memory, as Python's objects and foreign tensors share them.
//
//   Buffer (Python) ─┐
//   Array, HostView ─┼─> Memory ─> OwnAllocator ─> DeviceUse ─> sim::Machine
//   DLPack tensors  ─┘
//
// Each arrow is shared ownership, so nothing ends before its last user, in whatever order Python
// lets go. None of it holds an object of Python's but for hooks, and so any thread may drop it.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "ashlar/allocator.h"
#include "base/mutex.h"
#include "devices.h"

namespace ashlar::python {

class OwnAllocator {
 public:
  OwnAllocator(DeviceUse device, const AllocatorOptions& options)
      : device_(std::move(device)), options_(options), allocator_(*device_.device, options) {}

  const DeviceUse& device() const { return device_; }
  const AllocatorOptions& options() const { return options_; }
  Allocator& allocator() { return allocator_; }

  // Blocks go by the stream that they were allocated on, also while they are cached: it must live.
  void keep_stream(const std::shared_ptr<OwnStream>& stream) {
    if (stream == nullptr) return;
    MutexLock lock(mutex_);
    streams_.try_emplace(stream->id(), stream);
  }

  // How many look at memory of this allocator from the host.
  int host_access_count() const {
    MutexLock lock(mutex_);
    return host_access_count_;
  }
  void add_host_access(int change) {
    MutexLock lock(mutex_);
    host_access_count_ += change;
  }

 private:
  DeviceUse device_;
  AllocatorOptions options_;
  mutable Mutex mutex_;
  // Shared with their handles in Python.
  std::map<StreamId, std::shared_ptr<OwnStream>> streams_ ASHLAR_GUARDED_BY(mutex_);
  int host_access_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  Allocator allocator_;  // last: it ends before its streams and its device
};

// A block, freed when its last user lets go.
struct Memory {
  std::shared_ptr<OwnAllocator> owner;
  StreamArgument stream{};
  Buffer buffer{};  // last: it is freed before its allocator ends

  const DeviceUse& device() const { return owner->device(); }
};

}  // namespace ashlar::python
