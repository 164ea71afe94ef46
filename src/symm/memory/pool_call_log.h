// SPDX-License-Identifier: Apache-2.0
//
// What was done with a pool, act by act: a hash over all of them, which a rendezvous compares, and
// the last ones themselves, so that ranks whose hashes differ can say where they parted. Thread
// safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "ashlar/status.h"
#include "base/mutex.h"
#include "symm/core/hash.h"

namespace ashlar::symm {

struct PoolCall {
  enum class Kind : uint8_t {
    kAllocate,  // `subject` bytes
    kRefuse,    // the same, and there was no memory
    kFree,      // of buffer `subject`, counted in the order of allocation
    kTrim,
  };
  Kind kind = Kind::kAllocate;
  uint64_t argument = 0;

  std::string to_string() const;  // "allocated 512 bytes"
  bool operator==(const PoolCall&) const = default;
};

class PoolCallLog {
 public:
  static constexpr size_t kKeptCalls = 512;

  struct State {
    uint64_t number = 0;  // from 0 on
    uint64_t hash = 0;    // of this act and all before it
  };

  State append(const PoolCall& call) ASHLAR_EXCLUDES(mutex_);
  // How many there were, and the hash of all.
  State state() const ASHLAR_EXCLUDES(mutex_);
  // The last acts up to number `last`, for other ranks. Acts long past are forgotten.
  std::string tail_up_to(uint64_t last) const ASHLAR_EXCLUDES(mutex_);

 private:
  struct Entry {
    PoolCall call{};
    uint64_t hash_before = 0;
  };

  mutable Mutex mutex_;
  uint64_t count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t hash_ ASHLAR_GUARDED_BY(mutex_) = kHashSeed;
  std::deque<Entry> entries_ ASHLAR_GUARDED_BY(mutex_);  // the last of `count_`
};

// Where the ranks first did not do the same, by their tails: "in act 7: rank 0 allocated 512 bytes,
// rank 1 freed buffer 2", or before what they remember. Empty: what all remember is the same.
// kFormat: a tail is none.
Result<std::string> first_difference(std::span<const std::string> tails);

}  // namespace ashlar::symm
