// SPDX-License-Identifier: Apache-2.0
//
// Recording of an allocator's operations and of the call stacks behind them.
//
// Recording is off by default. While it is on, every operation, except those that
// HistoryOptions::skip_actions lists, is written to a ring buffer of `max_entries` entries. If host
// memory is exhausted, the history omits operations. Stacks are stored as return addresses and
// resolved to names when a snapshot is taken.
//
// Errors: functions throw; a `FrameProvider` must not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/snapshot.h"
#include "ashlar/trace.h"

namespace ashlar {

class Allocator;
class Engine;

// Selects the parts of a snapshot that have call stacks. Each level includes the previous level.
enum class RecordContext {
  kNever,
  kState,  // blocks that are allocated at the time of the snapshot
  kAlloc,  // entries of allocations
  kAll,    // entries of frees
};

// Supplies stack frames of another language, such as Python. Its functions are called with no lock
// held and must not throw. `gather` and `keep` run on the thread whose stack is recorded,
// `describe` on the thread that takes a snapshot or queries the stack of a block.
class ASHLAR_EXPORT FrameProvider {
 public:
  virtual ~FrameProvider() = default;
  // Writes one word per frame of the calling thread, innermost first, and returns the number of
  // frames. Runs whenever a stack is recorded, so it must be cheap.
  virtual size_t gather(std::span<uint64_t> frames) = 0;
  // Retains the object that the word refers to, because `describe` may be called for the word
  // later. May be called several times for one word.
  virtual void keep(uint64_t frame) = 0;
  // Returns the name and the location of a frame that `gather` wrote.
  virtual Frame describe(uint64_t frame) = 0;
};

struct HistoryOptions {
  size_t max_entries = size_t{1} << 20;  // capacity of the ring buffer; 0 counts as 1
  RecordContext context = RecordContext::kNever;
  bool native_stacks = true;  // record the program's return addresses
  // Provider of frames of another language, which precede the native frames in a stack. Shared with
  // the recorded entries. Null: native frames only.
  std::shared_ptr<FrameProvider> provider{};
  std::vector<TraceAction> skip_actions{};  // actions that are not recorded
  bool clear = false;                       // discard earlier entries
};

// The history of one allocator: `allocator.history()`. Thread safe.
class ASHLAR_EXPORT AllocatorHistory {
 public:
  AllocatorHistory(const AllocatorHistory&) = delete;
  AllocatorHistory& operator=(const AllocatorHistory&) = delete;

  // Starts recording, or continues with other options. Throws InvalidArgument if `context` requests
  // stacks, but `native_stacks` is false and `provider` is null.
  void start(HistoryOptions options = {});
  // Stops recording and discards all entries.
  void stop();
  bool is_recording() const;

  // Adds an annotation with the current time to the history, if recording. See also `Region`.
  void annotate(std::vector<std::pair<std::string, std::string>> fields);
  // Records a string for a live block, if recording. Throws InvalidArgument if no block starts at
  // the address.
  void annotate(DeviceAddress address, const std::string& text);

 private:
  friend class Allocator;
  explicit AllocatorHistory(Engine& engine) : engine_(engine) {}

  Engine& engine_;
};

// Marks its own lifetime in the history, as a named region. The allocator must outlive the Region.
class ASHLAR_EXPORT Region {
 public:
  Region(Allocator& allocator, std::string name);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  AllocatorHistory& history_;
  std::string name_;
};

// Enters a region of compiled code (torch.compile). The region's name is attached to everything the
// calling thread records, in every allocator, until pop_compile_context. Regions nest; the
// innermost one is recorded.
ASHLAR_EXPORT void push_compile_context(std::string name);
// Leaves the region of the last push_compile_context. Does nothing if there is none.
ASHLAR_EXPORT void pop_compile_context();
// Sets a string that is attached to everything the calling thread records, in every allocator. An
// empty string clears it.
ASHLAR_EXPORT void set_user_metadata(std::string text);
// Returns the string that the calling thread has set.
ASHLAR_EXPORT std::string user_metadata();

}  // namespace ashlar
