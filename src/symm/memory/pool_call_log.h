// SPDX-License-Identifier: Apache-2.0
//
// A log of the calls to a pool: a hash of all calls, which a rendezvous compares between ranks, and
// the most recent calls, so that ranks whose hashes differ can report the first difference. Thread
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
    kAllocate,        // `argument` is the size
    kAllocateFailed,  // a segment could not be allocated; `argument` is the size of the buffer
    kFree,            // `argument` is the number of the buffer, in allocation order
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
    uint64_t number = 0;
    uint64_t hash = 0;
  };

  // Returns the number of this call, counted from 0, and the hash of all calls up to and including
  // this call.
  State append(const PoolCall& call) ASHLAR_EXCLUDES(mutex_);
  // Returns the number of calls so far and the hash of them all.
  State state() const ASHLAR_EXCLUDES(mutex_);
  // Serializes the recorded calls up to and including number `last`, for other ranks. Only the most
  // recent kKeptCalls calls are recorded.
  std::string tail_up_to(uint64_t last) const ASHLAR_EXCLUDES(mutex_);

 private:
  struct Entry {
    PoolCall call{};
    uint64_t hash_before = 0;
  };

  mutable Mutex mutex_;
  uint64_t count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t hash_ ASHLAR_GUARDED_BY(mutex_) = kHashSeed;
  std::deque<Entry> entries_ ASHLAR_GUARDED_BY(mutex_);  // the most recent calls
};

// Describes the first call that differs between ranks, given their serialized logs: "in call 7:
// rank 0 allocated 512 bytes, rank 1 freed buffer 2", or says that this call precedes the recorded
// calls. Returns an empty string if the recorded calls agree, and kFormat if a log is malformed.
Result<std::string> first_difference(std::span<const std::string> tails);

}  // namespace ashlar::symm
