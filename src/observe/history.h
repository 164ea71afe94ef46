// SPDX-License-Identifier: Apache-2.0
//
// A ring buffer of an allocator's most recent operations. Engines record under the lock that guards
// the operation (in the paged engine, the lock of the block's arena or of the engine), so the
// entries of one address are in order. Thread safe; no other lock is taken while the history's lock
// is held (docs/internals/locking.md).
//
// If host memory is exhausted, `record` and `record_fast` omit the operation, and `capture` returns
// an empty id. Other functions that allocate memory throw std::bad_alloc.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/history.h"
#include "ashlar/status.h"
#include "base/biased_mutex.h"
#include "base/ticks.h"
#include "observe/stack_table.h"
#include "observe/thread_context.h"

namespace ashlar {

// Records stacks in a representation of its own: returns an id for the calling thread's stack, made
// by recorded_stack_id, or an empty id. Called with no lock held; may throw std::bad_alloc. The
// owner of the function keeps the stacks. History::stacks_in_use and Engine::stacks_in_use list the
// stacks that are still needed.
using StackRecorder = std::function<StackId()>;

class History {
 public:
  // Starts recording, or continues with other options. With a recorder, stacks come from the
  // recorder only. kInvalidArgument: stacks are requested, but the options have neither
  // native_stacks nor a frame provider, and there is no recorder.
  Status start(HistoryOptions options, StackRecorder recorder = nullptr);
  // Stops recording and discards everything except the stacks, because live blocks refer to them.
  void stop();

  // Reads in relaxed order: an operation that races with start() or stop() may read either value.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  RecordContext context() const { return context_.load(std::memory_order_relaxed); }

  // Captures the calling thread's stack if the recording level is at least `from`; otherwise
  // returns an empty id, as it does if host memory is exhausted. Native frames start at the return
  // address `first`. Call this before taking any lock, because the frame provider is user code.
  StackId capture(RecordContext from, const void* first) {
    return records_stacks(from) ? capture_slow(first) : StackId();
  }
  // After set_inherited, returns true for every level.
  bool records_stacks(RecordContext from) const {
    const RecordContext level = context();
    return level >= from && level != RecordContext::kNever;
  }
  // Called in a forked child, which must not use the history. Makes callers leave their fast path,
  // which records no stacks, so that the fast path needs no check of its own for forks.
  void set_inherited() { context_.store(kInherited, std::memory_order_relaxed); }

  // Records an entry with the current time and the thread's context. Drops the stack if the
  // recording level is below kAlloc.
  void record(const TraceEntry& entry) noexcept {
    if (is_on()) record_slow(to_operation(entry));
  }
  // Records an entry with `text` instead of the thread's metadata. Throws std::bad_alloc, and
  // records nothing, if host memory is exhausted.
  void record_annotation(const TraceEntry& entry, const std::string& text) {
    if (is_on()) append(to_operation(entry), &text);
  }
  // The compact form of an entry. One operation can also represent the two entries of an immediate
  // free.
  struct Operation {
    TraceAction action = TraceAction::kAlloc;
    bool is_immediate_free = false;  // kFreeRequested, immediately followed by kFreeCompleted
    StackId stack{};
    DeviceAddress address{};
    size_t bytes = 0;
    StreamId stream{};
    PoolId pool{};
  };
  void record(const Operation& operation) noexcept {
    if (is_on()) record_slow(operation);
  }
  // Records the operation that `make` returns. The function is inline, so that the fast path stores
  // the operation from registers directly in the ring.
  template <typename Make>
  [[gnu::always_inline]] void record_fast(const Make& make) {
    if (!try_record_fast(make)) record_slow(make());
  }
  void annotate(DeviceIndex device, std::vector<std::pair<std::string, std::string>> fields);

  // A position between two operations. For a consistent snapshot, call `position` while holding the
  // engine's lock.
  struct Position {
    size_t index = SIZE_MAX;  // ring index of the operation before the position; SIZE_MAX: none
    uint64_t ticks = 0;       // time of that operation; shows whether its slot was overwritten
  };
  Position position() const;

  // Stores the entries up to `position` as the device's trace in the snapshot, oldest first, with
  // the annotations up to `position` and all strings. Stack ids still refer to this history. Also
  // converts the times in snapshot.extents, as convert_times does. If the ring no longer contains
  // `position`, stores all entries.
  void read_into(Snapshot& snapshot, DeviceIndex device, const Position& position) const;
  void read_into(Snapshot& snapshot, DeviceIndex device) const {
    read_into(snapshot, device, Position());
  }
  // Converts the times of the extents' mappings from ticks to microseconds since 1970.
  void convert_times(std::vector<SnapshotExtent>& extents) const;
  const StackTable& stacks() const { return stacks_; }
  // Returns the stacks that recorded operations refer to, in no particular order.
  std::vector<StackId> stacks_in_use() const;

 private:
  static constexpr auto kInherited =
      static_cast<RecordContext>(UINT8_MAX);  // greater than all levels

  StackId capture_slow(const void* first);
  StackId capture_stack(const void* first);

  // One operation in the ring: 64 bytes.
  struct Slot {
    Operation operation;
    uint64_t ticks = 0;
    StringId compile_context{};
    StringId user_metadata{};
  };
  static Operation to_operation(const TraceEntry& entry) {
    return {entry.action, false, entry.stack, entry.address, entry.bytes, entry.stream, entry.pool};
  }
  void record_slow(const Operation& operation) noexcept;
  // Records the operation, or throws std::bad_alloc and records nothing. A non-null `text` replaces
  // the thread's metadata.
  void append(Operation operation, const std::string* text);
  // Records the operation that `make` returns if the mutex is biased to the calling thread, the
  // thread has no context, no actions are skipped, and the ring needs no new chunk. Otherwise
  // returns false; the caller must then call record_slow. Needs no check of is_on: after `stop`,
  // there are no chunks.
  template <typename Make>
  [[gnu::always_inline]] bool try_record_fast(const Make& make)
      ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    const OwnedLock lock(mutex_);
    const bool is_simple =
        lock.is_held() && ThreadContext::current_or_null() == nullptr && skipped_actions_ == 0;
    if (!is_simple) return false;
    if (next_ == count_) {  // the ring is not full yet
      if (next_ == chunks_.size() * kChunkSlots) return false;
      ++count_;
    }
    Slot& kept = slot(next_);
    kept.ticks = ticks_now();  // read first, so that its latency overlaps with the stores below
    kept.operation = make();
    if (context() < RecordContext::kAlloc) kept.operation.stack = {};
    kept.compile_context = {};
    kept.user_metadata = {};
    next_ = next_ + 1 == options_.max_entries ? 0 : next_ + 1;
    return true;
  }
  bool skips(TraceAction action) const ASHLAR_REQUIRES(mutex_) {
    return (skipped_actions_ >> static_cast<uint32_t>(action) & 1) != 0;
  }

  // The ring is allocated in chunks, so that a large ring uses no memory until it fills, and slots
  // do not move as it fills.
  static constexpr size_t kChunkSlots = 4096;
  using Chunk = std::array<Slot, kChunkSlots>;

  Slot& slot(size_t index) ASHLAR_REQUIRES(mutex_) {
    return (*chunks_[index / kChunkSlots])[index % kChunkSlots];
  }
  const Slot& slot(size_t index) const ASHLAR_REQUIRES(mutex_) {
    return (*chunks_[index / kChunkSlots])[index % kChunkSlots];
  }
  // Returns whether the operation before `position` is still in the ring.
  bool contains_position(const Position& position) const ASHLAR_REQUIRES(mutex_) {
    return position.index < count_ && slot(position.index).ticks == position.ticks;
  }
  // Returns the newest `max_entries` entries, oldest first, after skipping the newest `skip_count`
  // slots. Times are in ticks.
  std::vector<TraceEntry> entries(size_t max_entries, size_t skip_count) const
      ASHLAR_REQUIRES(mutex_);
  void convert_times_locked(std::vector<SnapshotExtent>& extents) const ASHLAR_REQUIRES(mutex_);
  void resize(size_t max_entries) ASHLAR_REQUIRES(mutex_);
  void clear() noexcept ASHLAR_REQUIRES(mutex_);
  StringId intern(const std::string& text) ASHLAR_REQUIRES(mutex_);
  // Drops strings that no entry refers to, so that a program that keeps setting new metadata does
  // not exhaust memory.
  void drop_unused_strings() ASHLAR_REQUIRES(mutex_);

  StackTable stacks_;
  std::atomic<bool> is_on_{false};
  std::atomic<RecordContext> context_{RecordContext::kNever};

  mutable BiasedMutex<LockRank::kHistory> mutex_;
  HistoryOptions options_ ASHLAR_GUARDED_BY(mutex_);
  // Null: stacks come from `options_`. Shared with calls in progress, which hold no lock.
  std::shared_ptr<const StackRecorder> recorder_ ASHLAR_GUARDED_BY(mutex_);
  uint32_t skipped_actions_ ASHLAR_GUARDED_BY(mutex_) = 0;  // one bit for each TraceAction
  mutable TickClock clock_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Chunk>> chunks_ ASHLAR_GUARDED_BY(mutex_);
  size_t count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // slots in use
  size_t next_ ASHLAR_GUARDED_BY(mutex_) = 0;   // the next slot to write
  std::vector<Annotation> annotations_ ASHLAR_GUARDED_BY(mutex_);
  size_t next_annotation_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> strings_ ASHLAR_GUARDED_BY(mutex_) = {{}};
  std::map<std::string, StringId, std::less<>> string_ids_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
