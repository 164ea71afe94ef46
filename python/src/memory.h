// SPDX-License-Identifier: Apache-2.0
//
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

// Memory goes by the streams that it was allocated on or recorded for, also while it is cached:
// they must live as long as its allocator. Thread safe.
class KeptStreams {
 public:
  void keep(const std::shared_ptr<OwnStream>& stream);  // null: nothing

 private:
  Mutex mutex_;
  // Shared with their handles in Python.
  std::map<StreamId, std::shared_ptr<OwnStream>> streams_ ASHLAR_GUARDED_BY(mutex_);
};

class OwnAllocator {
 public:
  OwnAllocator(DeviceUse device, const AllocatorOptions& options)
      : device_(std::move(device)), options_(options), allocator_(device_.here(), options) {}

  const DeviceUse& device() const { return device_; }
  const AllocatorOptions& options() const { return options_; }
  // Throws InvalidArgument in another process than the one that made it.
  Allocator& allocator() {
    require_made_here(device_.made_at);
    return allocator_;
  }

  void keep_stream(const std::shared_ptr<OwnStream>& stream) {
    require_made_here(device_.made_at);
    streams_.keep(stream);
  }

  // Hosts that look at memory, and those who pause, which takes it away, keep each other out. Both
  // throw InvalidArgument where the other is at it. Resuming only keeps others from beginning to
  // look: what is in the memory may not be back yet. Each is to be ended.
  void begin_host_access();
  void end_host_access();
  void begin_pausing();
  void begin_resuming();
  void end_changing();

 private:
  DeviceUse device_;
  AllocatorOptions options_;
  KeptStreams streams_;
  Mutex mutex_;
  int host_access_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  int changing_count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // that pause or resume, each with its tag
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
