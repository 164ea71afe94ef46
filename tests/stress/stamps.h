// What a block holds, as simulated device work writes and reads it: a word of its own in each of
// the smallest units that memory is handed out in. Whatever else touches any part of the block is
// seen, at an eighth of the price of writing every byte.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "ashlar/sim.h"
#include "engine/block.h"
#include "engine/size_policy.h"

namespace ashlar::stress {

inline constexpr size_t kStepWords = kMinBlockBytes / sizeof(uint64_t);

// The range of a block, and the name that its words are made of.
struct Stamp {
  DeviceAddress at{};
  size_t bytes = 0;
  uint64_t name = 0;

  uint64_t word(size_t index) const { return name * 0x9e3779b97f4a7c15ULL + index; }
};

// Work that stamps the block. REQUIRES: queued where the block may be used.
inline sim::Kernel write_stamp(const Stamp& stamp) {
  return [stamp](const sim::DeviceMemory& memory) -> Status {
    Result<std::span<uint64_t>> words = memory.view<uint64_t>(stamp.at, stamp.bytes / 8);
    if (!words.ok()) return words.status();
    for (size_t i = 0; i < words->size(); i += kStepWords) (*words)[i] = stamp.word(i);
    return {};
  };
}

// Work that counts the units that no longer hold what was written. The counter outlives the work.
inline sim::Kernel check_stamp(const Stamp& stamp, std::atomic<uint64_t>& mismatch_count) {
  return [stamp, &mismatch_count](const sim::DeviceMemory& memory) -> Status {
    const auto words = memory.view<const uint64_t>(stamp.at, stamp.bytes / 8);
    if (!words.ok()) return words.status();
    uint64_t wrong = 0;
    for (size_t i = 0; i < words->size(); i += kStepWords) wrong += (*words)[i] != stamp.word(i);
    // Only a number is wanted, and whoever reads it has waited for the work.
    mismatch_count.fetch_add(wrong, std::memory_order_relaxed);
    return {};
  };
}

}  // namespace ashlar::stress
