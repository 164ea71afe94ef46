// SPDX-License-Identifier: Apache-2.0
//
// Holds streams of a real CUDA device back: the driver's own wait for a word in pinned memory,
// which needs no thread of the host, so that any number of streams can be held at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>

#include "ashlar/device.h"

namespace ashlar::contract {

class StreamHolder {
 public:
  // The device's driver is in use already. Throws where it has no such function.
  explicit StreamHolder(Device& device);

  // One that is held already stays so, until it is resumed once.
  Status hold(StreamId stream);
  Status resume(StreamId stream);

 private:
  static constexpr size_t kWordCount = 4096;

  Device& device_;
  void* context_ = nullptr;  // the device's primary one
  int (*push_)(void*) = nullptr;
  int (*pop_)(void**) = nullptr;
  int (*wait_)(void*, uint64_t, uint32_t, unsigned) = nullptr;
  uint32_t* words_ = nullptr;  // each is used once, and 1 once its stream may go on
  size_t next_ = 0;
  std::map<StreamId, size_t> held_;
};

}  // namespace ashlar::contract
