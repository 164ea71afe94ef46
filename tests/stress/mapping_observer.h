// SPDX-License-Identifier: Apache-2.0
//
// The mapped ranges according to an engine's remap observer. Thread safe.
#pragma once

#include <map>
#include <mutex>

#include "engine/engine.h"

namespace ashlar::stress {

class MappingObserver {
 public:
  // `engine` outlives the object and notifies it from now on.
  explicit MappingObserver(Engine& engine);
  MappingObserver(const MappingObserver&) = delete;
  MappingObserver& operator=(const MappingObserver&) = delete;

  // Expects that the block's memory was reported before the block was handed out. Whole segments
  // are not reported.
  void expect_reported(const Block& block) const;
  // Expects that the reported ranges are what the device has mapped. REQUIRES: the engine is idle.
  void expect_true() const;

 private:
  void note_mapped(AddressRange range);
  void note_unmapping(AddressRange range);
  void call_the_engine();
  bool covers(AddressRange range) const;
  bool is_mapped(DeviceAddress at) const;

  Engine& engine_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, size_t> reported_;  // bytes by start
  size_t mapped_count_ = 0;
  bool is_calling_ = false;  // used by the observer only, one notification at a time
};

}  // namespace ashlar::stress
