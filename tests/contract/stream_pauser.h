// SPDX-License-Identifier: Apache-2.0
//
// Pauses streams of a real CUDA device with cuStreamWaitValue32 on a word in pinned memory, which
// needs no host thread per paused stream. Fails after kWordCount pauses, because words are not
// reused.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "ashlar/device.h"

namespace ashlar::contract {

class StreamPauser {
 public:
  // Throws if the CUDA driver is not loaded, lacks a required function, or returns an error.
  explicit StreamPauser(Device& device);

  // Pausing a paused stream has no effect.
  Status pause_stream(StreamId stream);
  Status resume_stream(StreamId stream);

 private:
  static constexpr size_t kWordCount = 4096;

  Device& device_;
  void* context_ = nullptr;  // the device's primary context
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
  int (*wait_)(void*, uint64_t, uint32_t, unsigned) = nullptr;
  uint32_t* words_ = nullptr;  // one word per pause; set to 1 to resume the stream
  size_t next_ = 0;
  std::map<StreamId, size_t> paused_;
};

}  // namespace ashlar::contract
