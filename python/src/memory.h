// SPDX-License-Identifier: Apache-2.0
//
// Ownership of allocators and their memory by Python objects and by tensors of other libraries.
//
//   Buffer (Python) ─┐
//   Array, HostView ─┼─> Memory ─> SharedAllocator ─> DeviceRef ─> sim::Machine
//   DLPack tensors  ─┘
//
// Each arrow is shared ownership, so objects may be released in any order. Only an allocator's
// hooks hold Python objects, and take the GIL to release them, so any thread may release any
// object.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "ashlar/allocator.h"
#include "base/mutex.h"
#include "devices.h"

namespace ashlar::python {

// The streams created from Python on which memory was allocated or recorded. They must outlive the
// allocator, which uses them even for cached memory. Thread safe.
class RetainedStreams {
 public:
  void retain(const std::shared_ptr<SharedStream>& stream);  // ignores null

 private:
  Mutex mutex_;
  // Shared with their Python objects.
  std::map<StreamId, std::shared_ptr<SharedStream>> streams_ ASHLAR_GUARDED_BY(mutex_);
};

// An allocator. Its Python object, its buffers and its pools share it.
class SharedAllocator {
 public:
  SharedAllocator(DeviceRef device, const AllocatorOptions& options)
      : device_(std::move(device)), options_(options), allocator_(device_.checked(), options) {}

  const DeviceRef& device() const { return device_; }
  const AllocatorOptions& options() const { return options_; }
  // Returns the allocator. Throws InvalidArgument if it belongs to a parent process.
  Allocator& allocator() {
    require_same_process(device_.created_after_forks);
    return allocator_;
  }

  void retain_stream(const std::shared_ptr<SharedStream>& stream) {
    require_same_process(device_.created_after_forks);
    streams_.retain(stream);
  }

  // Host access and pausing exclude each other. begin_host_access throws InvalidArgument while a
  // pool is being paused or resumed; begin_pause throws it while there is host access. begin_resume
  // only prevents new host access, because the contents may not be restored yet. Each begin
  // function must be paired with its end function.
  void begin_host_access();
  void end_host_access();
  void begin_pause();
  void begin_resume();
  void end_pause_or_resume();

 private:
  DeviceRef device_;
  AllocatorOptions options_;
  RetainedStreams streams_;
  Mutex mutex_;
  int host_access_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  int pause_or_resume_count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // threads in pause or resume
  Allocator allocator_;  // the last member, so destroyed before its streams and its device
};

// A block of device memory, which is freed when its last owner is destroyed.
struct Memory {
  std::shared_ptr<SharedAllocator> owner;
  StreamArgument stream{};
  Buffer buffer{};  // the last member, so freed before its allocator is destroyed

  const DeviceRef& device() const { return owner->device(); }
};

}  // namespace ashlar::python
