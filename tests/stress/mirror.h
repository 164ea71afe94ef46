// SPDX-License-Identifier: Apache-2.0
//
// What somebody would know who registers memory elsewhere: the ranges that an engine has told its
// observer. Thread safe.
#pragma once

#include <map>
#include <mutex>

#include "engine/engine.h"

namespace ashlar::stress {

class Mirror {
 public:
  // `engine` outlives it, and tells it everything from now on.
  explicit Mirror(Engine& engine);
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  // Whether the block's memory had been told when it was handed out. Whole segments never are.
  void expect_told(const Block& block) const;
  // While nobody is inside of the engine: what was told is what the device has mapped.
  void expect_true() const;

 private:
  void note_mapped(AddressRange range);
  void note_unmapping(AddressRange range);
  void call_the_engine();
  bool covers(AddressRange range) const;
  bool is_mapped(DeviceAddress at) const;

  Engine& engine_;
  mutable std::mutex mutex_;
  std::map<DeviceAddress, size_t> told_;  // bytes, by where they begin
  size_t mapped_count_ = 0;
  bool is_calling_ = false;  // only the observer's: one is told at a time
};

}  // namespace ashlar::stress
