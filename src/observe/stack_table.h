// SPDX-License-Identifier: Apache-2.0
//
// Interns call stacks. A stack is captured as 64-bit words, which is fast; words become frames with
// names only when a snapshot is taken. Thread safe.
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

// A captured stack. The first `provided_count` words are from the provider, the others are return
// addresses.
struct RawStack {
  std::span<const uint64_t> words;
  size_t provided_count = 0;
  std::shared_ptr<FrameProvider> provider;  // null if there are no provided words
};

// Ids of stacks that a StackRecorder keeps instead of a StackTable (observe/history.h). The number
// is below 2^31.
inline constexpr uint32_t kRecordedStackBit = uint32_t{1} << 31;
inline StackId recorded_stack_id(uint32_t number) { return StackId(number | kRecordedStackBit); }
inline bool is_recorded_stack(StackId stack) { return (stack.value() & kRecordedStackBit) != 0; }

class StackTable {
 public:
  // Returns the id of the stack, which is valid for the lifetime of the table. An empty stack has
  // id 0.
  StackId intern(const RawStack& stack);
  // Frames and stacks that add_to has added to the tables of one snapshot so far.
  struct SnapshotCache {
    std::map<std::pair<const FrameProvider*, uint64_t>, uint32_t> frames;
    std::map<StackId, StackId> stacks;
    // These maps merge equal contents: several addresses on one source line become one frame.
    std::map<std::tuple<std::string, std::string, int64_t>, uint32_t> frames_by_content;
    std::map<std::vector<uint32_t>, StackId> stacks_by_content;
  };
  // Adds the stack and its frames to the tables of a snapshot, unless `cache` has them, and returns
  // the stack's id in the snapshot. Use one `cache` per snapshot. Stacks of a StackRecorder have no
  // frames here: their id in the snapshot is 0.
  StackId add_to(SnapshotTables& tables, StackId stack, SnapshotCache& cache,
                 const class Symbolizer& symbolizer) const;

 private:
  struct StoredStack {
    std::vector<uint64_t> words;
    size_t provided_count = 0;
    std::shared_ptr<FrameProvider> provider;  // describes the provided words, so it is kept alive
  };
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<const StoredStack>> stacks_ ASHLAR_GUARDED_BY(mutex_);
  std::unordered_multimap<uint64_t, uint32_t> by_hash_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
