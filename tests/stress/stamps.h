// SPDX-License-Identifier: Apache-2.0
//
// Block contents that simulated device work writes and checks: one unique word in each unit of
// kMinBlockBytes. Detects the stamps of other blocks in the same memory, but touches only one of
// eight cache lines.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "ashlar/sim.h"
#include "base/text.h"
#include "engine/block.h"
#include "engine/size_policy.h"

namespace ashlar::stress {

inline constexpr size_t kStepWords = kMinBlockBytes / sizeof(uint64_t);

// A block's range and the unique id from which its words are computed.
struct Stamp {
  DeviceAddress at{};
  size_t bytes = 0;
  uint64_t id = 0;

  uint64_t word(size_t index) const { return id * 0x9e3779b97f4a7c15ULL + index; }
};

// Counts units with wrong contents and describes the first one. Thread safe.
class Mismatches {
 public:
  void add(const Stamp& stamp, size_t index, uint64_t found) {
    const std::lock_guard lock(mutex_);
    if (count_++ > 0) return;
    first_ = text("block ", stamp.id, " at ", stamp.at, ", ", stamp.bytes, " B: word ", index,
                  " is ", found, " instead of ", stamp.word(index));
    const uint64_t id = (found - index) * kInverse;
    if (id > 0 && id < kIdLimit) first_ += text(", which is block ", id, "'s");
  }
  uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::string first() const {
    const std::lock_guard lock(mutex_);
    return first_;
  }

 private:
  static constexpr uint64_t kInverse =
      0xf1de83e19937733dULL;                               // inverse of the factor in Stamp::word
  static constexpr uint64_t kIdLimit = uint64_t{1} << 40;  // greater than all stamp ids

  mutable std::mutex mutex_;
  uint64_t count_ = 0;
  std::string first_;
};

// Returns work that stamps the block. REQUIRES: the work is queued on a stream that may use the
// block.
inline sim::Kernel write_stamp(const Stamp& stamp) {
  return [stamp](const sim::DeviceMemory& memory) -> Status {
    Result<std::span<uint64_t>> words = memory.try_view<uint64_t>(stamp.at, stamp.bytes / 8);
    if (!words.ok()) return words.status();
    for (size_t i = 0; i < words->size(); i += kStepWords) (*words)[i] = stamp.word(i);
    return {};
  };
}

// Returns work that adds changed units to `mismatches`, which must outlive the work.
inline sim::Kernel check_stamp(const Stamp& stamp, Mismatches& mismatches) {
  return [stamp, &mismatches](const sim::DeviceMemory& memory) -> Status {
    const auto words = memory.try_view<const uint64_t>(stamp.at, stamp.bytes / 8);
    if (!words.ok()) return words.status();
    for (size_t i = 0; i < words->size(); i += kStepWords) {
      if ((*words)[i] != stamp.word(i)) mismatches.add(stamp, i, (*words)[i]);
    }
    return {};
  };
}

}  // namespace ashlar::stress
