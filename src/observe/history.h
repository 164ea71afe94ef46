// SPDX-License-Identifier: Apache-2.0
//
// The ring of an allocator's last acts. An engine records into it while it holds its own lock, so
// that entries are in order; whoever takes a snapshot reads it. Thread safe; its lock is the last
// of all (docs/design/locking.md).
#pragma once

#include <array>
#include <atomic>
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

class History {
 public:
  // Begins, or goes on under other options. kInvalidArgument: stacks are wanted, but none of either
  // kind.
  Status start(HistoryOptions options);
  // Ends, and forgets everything but stacks: live blocks name them.
  void stop();

  // Relaxed: an act at the very moment of the change may go either way.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  RecordContext context() const { return context_.load(std::memory_order_relaxed); }

  // The caller's stack, if the level asks for it from `from` on. Call it before taking any lock:
  // the provider is somebody else's code. Native frames begin with the return address `first`.
  StackId capture(RecordContext from, const void* first) {
    return wants_stacks(from) ? capture_now(first) : StackId();
  }
  bool wants_stacks(RecordContext from) const {
    const RecordContext level = context();
    return level >= from && level != RecordContext::kNever;
  }
  // Stamps time and the thread's context on the entry, and keeps it. Entries name a stack only from
  // level kAlloc on. `text` replaces what the thread has said, if it is given.
  void record(const TraceEntry& entry, const std::string* text = nullptr) {
    if (is_on()) record_slow(operation_of(entry), text);
  }
  // The same for who has no entry yet, and for two of them at once.
  struct Operation {
    TraceAction action = TraceAction::kAlloc;
    bool is_immediate_free =
        false;  // asked for, and done at once: kFreeRequested and kFreeCompleted
    StackId stack{};
    DeviceAddress address{};
    size_t bytes = 0;
    StreamId stream{};
    PoolId pool{};
  };
  void record(const Operation& operation) {
    if (is_on()) record_slow(operation, nullptr);
  }
  // For who counts nanoseconds: `make` gives the act, which goes from registers to the ring where
  // nothing more is to be done.
  template <typename Make>
  [[gnu::always_inline]] void record_fast(const Make& make) {
    if (!try_record_fast(make)) record_slow(make(), nullptr);
  }
  void annotate(DeviceIndex device, std::vector<std::pair<std::string, std::string>> fields);

  // A moment between two acts. Where an engine asks under its locks, it is the engine's own.
  struct Position {
    size_t index = SIZE_MAX;  // in the ring, of the operation before it; SIZE_MAX: there was none
    uint64_t ticks = 0;       // of that operation, which is another once its place is
  };
  Position position() const;

  // Appends what there was at a moment to a snapshot, oldest first: entries as one device's trace,
  // annotations, and the texts they name. Stack ids are still this history's. Dates its extents,
  // too. A ring so short that nothing of then is left gives what came later.
  void read_into(Snapshot& snapshot, DeviceIndex device, const Position& position) const;
  void read_into(Snapshot& snapshot, DeviceIndex device) const {
    read_into(snapshot, device, Position());
  }
  // Mappings carry ticks until here; then the time that an entry of that moment would have.
  void convert_times(std::vector<SnapshotExtent>& extents) const;
  const StackTable& stacks() const { return stacks_; }

 private:
  StackId capture_now(const void* first);

  // What is kept of an act: one line of the cache.
  struct Slot {
    Operation operation;
    uint64_t ticks = 0;
    StringId compile_context{};
    StringId user_metadata{};
  };
  static Operation operation_of(const TraceEntry& entry) {
    return {entry.action, false, entry.stack, entry.address, entry.bytes, entry.stream, entry.pool};
  }
  void record_slow(Operation operation, const std::string* text);
  // What nearly every act is: by the thread that records all the time, which has said nothing.
  // False: there is more to it.
  template <typename Make>
  [[gnu::always_inline]] bool try_record_fast(const Make& make)
      ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    const OwnedLock lock(mutex_);
    const bool is_simple =
        lock.is_held() && ThreadContext::current_or_null() == nullptr && skipped_ == 0;
    if (!is_simple) return false;
    if (next_ == count_) {  // never again once the ring is full
      if (next_ == chunks_.size() * kChunkSlots) return false;
      ++count_;
    }
    Slot& kept = slot(next_);
    kept.ticks = ticks_now();  // first: it takes longest, and nothing waits for it
    kept.operation = make();
    if (context() < RecordContext::kAlloc) kept.operation.stack = {};
    kept.compile_context = {};
    kept.user_metadata = {};
    next_ = next_ + 1 == options_.max_entries ? 0 : next_ + 1;
    return true;
  }
  bool skips(TraceAction action) const ASHLAR_REQUIRES(mutex_) {
    return (skipped_ >> static_cast<uint32_t>(action) & 1) != 0;
  }

  // Grows by pieces, so that a ring of millions costs nothing before it is needed, and never moves.
  static constexpr size_t kChunkSlots = 4096;
  using Chunk = std::array<Slot, kChunkSlots>;

  Slot& slot(size_t index) ASHLAR_REQUIRES(mutex_) {
    return (*chunks_[index / kChunkSlots])[index % kChunkSlots];
  }
  const Slot& slot(size_t index) const ASHLAR_REQUIRES(mutex_) {
    return (*chunks_[index / kChunkSlots])[index % kChunkSlots];
  }
  // Whether the act before a moment is still in the ring.
  bool reaches(const Position& position) const ASHLAR_REQUIRES(mutex_) {
    return position.index < count_ && slot(position.index).ticks == position.ticks;
  }
  // In order of age, as many of the newest as are asked for, but for those in the newest
  // `left_out` slots; times are still ticks.
  std::vector<TraceEntry> entries(size_t max_entries, size_t left_out) const
      ASHLAR_REQUIRES(mutex_);
  void convert_times_locked(std::vector<SnapshotExtent>& extents) const ASHLAR_REQUIRES(mutex_);
  void resize(size_t max_entries) ASHLAR_REQUIRES(mutex_);
  void clear() ASHLAR_REQUIRES(mutex_);
  StringId intern(const std::string& text) ASHLAR_REQUIRES(mutex_);
  // Texts are kept for the entries that name them. A program that says something new with each act
  // must not fill the memory, so now and then those that no entry names are dropped.
  void drop_unused_strings() ASHLAR_REQUIRES(mutex_);

  StackTable stacks_;
  std::atomic<bool> is_on_{false};
  std::atomic<RecordContext> context_{RecordContext::kNever};

  mutable BiasedMutex<LockRank::kHistory> mutex_;
  HistoryOptions options_ ASHLAR_GUARDED_BY(mutex_);
  uint32_t skipped_ ASHLAR_GUARDED_BY(mutex_) = 0;  // a bit for each action
  mutable TickClock clock_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Chunk>> chunks_ ASHLAR_GUARDED_BY(mutex_);
  size_t count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // slots in the ring
  size_t next_ ASHLAR_GUARDED_BY(mutex_) = 0;   // where the next one goes
  std::vector<Annotation> annotations_ ASHLAR_GUARDED_BY(mutex_);
  size_t next_annotation_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> strings_ ASHLAR_GUARDED_BY(mutex_) = {{}};
  std::map<std::string, StringId, std::less<>> string_ids_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
