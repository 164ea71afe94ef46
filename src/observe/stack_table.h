// SPDX-License-Identifier: Apache-2.0
//
// Every distinct stack once: words on the hot path, frames with names when somebody reads. Thread
// safe.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ashlar/history.h"
#include "base/mutex.h"

namespace ashlar {

// A stack as it was gathered: `provided_count` words of the provider first, then return addresses.
struct RawStack {
  std::span<const uint64_t> words;
  size_t provided_count = 0;
  std::shared_ptr<FrameProvider> provider;  // null where there are no words of one
};

class StackTable {
 public:
  // The stack's position, which it keeps. An empty stack is position 0.
  StackId intern(const RawStack& stack);
  // Adds frames and stack to the tables of a snapshot, and says where it is there. `added`
  // remembers what was added before; use one for one snapshot.
  struct Added {
    std::map<std::pair<const FrameProvider*, uint64_t>, uint32_t> frames;
    std::map<StackId, StackId> stacks;
    // Several addresses of one line are one frame to a reader.
    std::map<std::tuple<std::string, std::string, int64_t>, uint32_t> frames_by_content;
    std::map<std::vector<uint32_t>, StackId> stacks_by_content;
  };
  StackId add_to(SnapshotTables& tables, StackId stack, Added& added,
                 const class Symbols& symbols) const;

 private:
  struct Stored {
    std::vector<uint64_t> words;
    size_t provided_count = 0;
    std::shared_ptr<FrameProvider> provider;  // shared with whoever records: words need it to live
  };
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<const Stored>> stacks_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_multimap<uint64_t, uint32_t> by_hash_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
