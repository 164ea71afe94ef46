// SPDX-License-Identifier: Apache-2.0
//
// Records which ranges are mapped according to an engine's remap observer, and checks the record.
// Thread safe.
#pragma once

#include <map>
#include <mutex>

#include "engine/engine.h"

namespace ashlar::stress {

class MappingObserver {
 public:
  // Registers with `engine`, which must outlive this object.
  explicit MappingObserver(Engine& engine);
  MappingObserver(const MappingObserver&) = delete;
  MappingObserver& operator=(const MappingObserver&) = delete;

  // Expects that the memory of a newly allocated block has been reported. Plain segments are not
  // reported.
  void expect_reported(const Block& block) const;
  // Expects that the reported ranges are exactly the ranges that are mapped in the engine's views.
  // REQUIRES: no thread is inside the engine.
  void expect_matches_device() const;

 private:
  void on_mapped(AddressRange range);
  void on_unmapping(AddressRange range);
  void call_engine();
  bool covers(AddressRange range) const;
  bool is_mapped(DeviceAddress at) const;

  Engine& engine_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, size_t> reported_;  // size, keyed by first address
  size_t mapped_count_ = 0;
  bool is_calling_ = false;  // needs no lock: the engine sends one notification at a time
};

}  // namespace ashlar::stress
