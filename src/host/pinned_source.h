// SPDX-License-Identifier: Apache-2.0
//
// Where pinned memory comes from: the device's allocate_host; or the host's heap, with every page
// touched by several threads and then registered, which is much faster for large pieces; or first
// of all a segment taken at the start. Nothing is cached here. Thread safe.
#pragma once

#include <optional>

#include "ashlar/device.h"
#include "ashlar/options.h"
#include "base/mutex.h"
#include "host/pinned_block.h"

namespace ashlar {

class PinnedSource {
 public:
  PinnedSource(Device& device, const PinnedOptions& options) : device_(device), options_(options) {}
  // Gives the reserve segment back: nobody may be using any of it.
  ~PinnedSource();
  PinnedSource(const PinnedSource&) = delete;
  PinnedSource& operator=(const PinnedSource&) = delete;

  // Takes the reserve segment, if the options ask for one. Once, before anything is obtained.
  Status reserve();

  // REQUIRES: a size below PinnedSizes::kUnreasonableBytes. kOutOfMemory: the host has none.
  Result<PinnedMemory> obtain(size_t bytes);
  // A failure leaves the memory as it was, pinned and usable. REQUIRES: not of the reserve segment.
  Status give_back(const PinnedMemory& memory);

  // How much of the reserve segment was handed out; it is never handed out again.
  size_t reserve_used_bytes() const;
  size_t reserve_bytes() const;

 private:
  // From the host itself, past the reserve segment.
  Result<PinnedMemory> obtain_fresh(size_t bytes);
  Result<PinnedMemory> obtain_registered(size_t bytes);
  std::optional<PinnedMemory> take_reserved(size_t bytes);

  Device& device_;
  const PinnedOptions options_;

  mutable Mutex mutex_;
  PinnedMemory reserve_ ASHLAR_GUARDED_BY(mutex_);  // empty: there is none
  size_t reserve_used_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace ashlar
