// SPDX-License-Identifier: Apache-2.0
//
// The Replayer performs the trace entry by entry on a real engine and a simulated device. The file
// is long because the actions of a trace share the state of one class.
#include "analysis/replay/replay.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "analysis/layout.h"
#include "analysis/replay/adopted_layout.h"
#include "analysis/replay/cache_flushes.h"
#include "analysis/replay/delayed_frees.h"
#include "analysis/replay/replay_pools.h"
#include "analysis/replay/replay_streams.h"
#include "analysis/replay/replayed_segments.h"
#include "analysis/replay/simulated_granularity.h"
#include "analysis/replay/trace_clock.h"
#include "analysis/settings.h"
#include "analysis/timeline.h"
#include "base/align.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/classic/classic_engine.h"
#include "engine/classic/reserve_policy.h"
#include "engine/factory/make_engine.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kReplayed{0};
// Capacity of the H200 that the cost model is based on.
constexpr size_t kModelledCapacityBytes = 150109880320;
constexpr uint32_t kProgressPeriod = 65536;  // entries between reports of progress
constexpr uint32_t kReplayPollPeriod = 256;  // entries or allocations between polls of keep_going

// The allocated or the reserved bytes during a replay, and the entry at which they were highest.
// The engine's statistics have the same peaks, but reading them after each entry would take too
// long.
class PeakMoment {
 public:
  void change(size_t delta) { current_ += delta; }  // modulo 2^64
  void finish(uint32_t entry) {
    if (current_ <= peak_) return;
    peak_ = current_;
    entry_ = entry;
  }
  void restart() {
    peak_ = current_;
    entry_.reset();
  }
  std::optional<uint32_t> entry() const { return entry_; }

 private:
  size_t current_ = 0;
  size_t peak_ = 0;
  std::optional<uint32_t> entry_;
};

struct PeakMoments {
  PeakMoment allocated{};
  PeakMoment reserved{};
};

class Replayer {
 public:
  Replayer(const Snapshot& snapshot, const Allocations& allocations, const ReplayOptions& options);
  Status set_up();
  Status perform_all();
  ReplayResult result();

 private:
  Status create_engine(const AllocatorOptions& allocator);
  Status start_from(const Layout& start);
  Status adopt_layout(const Layout& start);
  bool can_adopt(const Layout& start) const;
  Status adopt(SnapshotSegment segment, const uint32_t* allocations);
  Status adopt_expandable(const Layout& start);
  Status allocate_initial(const std::vector<uint32_t>& before);
  Status check_cancelled(size_t done_count) const;
  Status perform(uint32_t index);
  Result<Block*> request(size_t bytes, StreamId recorded_stream);
  Status allocate(uint32_t index, const TraceEntry& entry);
  Status retry_failed(uint32_t index, const TraceEntry& entry);
  Status free(uint32_t index);
  Status complete(uint32_t index);
  Status end_displaced(uint32_t index);
  Status flush_cache(const CacheFlush& flush);
  ReplayedOom oom_at(uint32_t index) const;
  void add_oom(ReplayedOom oom, const Status& status);
  void restart_peaks();
  std::string with_recorded_device(std::string message) const;
  void inspect();
  void track(const TraceEntry& entry);

  const Snapshot& snapshot_;
  const std::vector<TraceEntry>& trace_;
  const Allocations& allocations_;
  const ReplayOptions& options_;
  const bool same_settings_;
  const size_t limit_bytes_;  // memory limit of the process
  const size_t granularity_bytes_;

  std::optional<ReplayedSegments> segments_;
  TraceClock clock_;
  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<Engine> engine_;
  std::optional<ReplayPools> pools_;
  std::optional<DelayedFrees> delayed_frees_;
  std::optional<ReplayStreams> streams_;
  std::vector<CacheFlush> flushes_;
  size_t next_flush_ = 0;
  size_t next_displaced_ = 0;

  std::vector<Block*> live_;  // indexed by allocation; null: not live
  PeakMoments peaks_;
  ReplayResult result_;
};

Replayer::Replayer(const Snapshot& snapshot, const Allocations& allocations,
                   const ReplayOptions& options)
    : snapshot_(snapshot),
      trace_(snapshot.device_traces[options.device.value()]),
      allocations_(allocations),
      options_(options),
      same_settings_(same_policy(options.allocator, options.recorded)),
      limit_bytes_(std::min(options.capacity_bytes, options.cap_bytes.value_or(SIZE_MAX))),
      granularity_bytes_(
          granularity_bytes_for(snapshot, allocations, options.device, options.capacity_bytes)),
      live_(allocations.all.size()) {}

Status Replayer::set_up() {
  sim::Options machine;
  machine.device_count = 1;
  machine.capacity_bytes = options_.capacity_bytes;
  machine.granularity_bytes = granularity_bytes_;
  machine.backing = sim::Backing::kBookkeeping;
  machine.seed = 1;
  machine.clock = &clock_.clock();
  Result<std::unique_ptr<sim::Machine>> made = sim::Machine::try_create(machine);
  if (!made.ok()) return made.status();
  machine_ = *std::move(made);
  AllocatorOptions allocator = options_.allocator;
  if (options_.cap_bytes) {
    const auto cap = static_cast<double>(*options_.cap_bytes);
    allocator.memory_fraction = std::min(1.0, cap / static_cast<double>(options_.capacity_bytes));
  }
  if (Status created = create_engine(allocator); !created.ok()) return created;
  // The limit of the recorded run is unknown, but was at least its peak of reserved memory. That
  // peak is used if it exceeds the limit of the replay.
  const size_t recorded_peak = peak_reserved_bytes_of(snapshot_, options_.device);
  flushes_ =
      find_cache_flushes(trace_, {initial_reserved_bytes(snapshot_, options_.device),
                                  std::max(limit_bytes_, recorded_peak), &options_.recorded});
  const Layout start = reconstruct_layout(snapshot_, options_.device, allocations_,
                                          RecordedSizePolicy(options_.recorded), std::nullopt);
  if (Status started = start_from(start); !started.ok()) return started;
  engine_->reset_total_stats();
  machine_->reset_costs(kReplayed);
  const AllocatorStats stats = engine_->stats();
  result_.start_reserved_bytes = static_cast<size_t>(stats.reserved_bytes.all.current);
  peaks_.reserved.change(result_.start_reserved_bytes);
  peaks_.allocated.change(static_cast<size_t>(stats.allocated_bytes.all.current));
  restart_peaks();
  engine_->add_tracker([this](const TraceEntry& entry) { track(entry); });
  return {};
}

// If possible, the engine adopts the recorded segments and blocks. Otherwise, it performs the
// allocations that predate the trace again, which packs them differently; the difference is ignored
// if the layout is small relative to the recorded peak.
Status Replayer::start_from(const Layout& start) {
  constexpr size_t kNegligibleDivisor = 100;  // 1/100 of the recorded peak
  machine_->set_address_policy(kReplayed,
                               [this](size_t bytes) { return segments_->choose_address(bytes); });
  if (can_adopt(start)) {
    segments_.emplace(trace_, plain_segments_of(start));
    return adopt_layout(start);
  }
  segments_.emplace(trace_, std::vector<SnapshotSegment>());
  const size_t recorded_peak = peak_reserved_bytes_of(snapshot_, options_.device);
  result_.starts_as_recorded = start.reserved_bytes() <= recorded_peak / kNegligibleDivisor;
  return allocate_initial(preexisting_allocations(allocations_));
}

bool Replayer::can_adopt(const Layout& start) const {
  if (options_.allocator.engine != EngineKind::kClassic) return false;
  const std::vector<ExpandablePart> parts = expandable_parts_of(start, trace_);
  if (parts.empty()) return true;
  const bool uses_expandable =
      options_.allocator.expandable_segments && options_.recorded.engine == EngineKind::kClassic;
  if (!uses_expandable || start.reserved_bytes() > limit_bytes_) return false;
  const SizePolicy sizes(options_.allocator);
  const classic::ReservePolicy reserve(options_.allocator, options_.capacity_bytes);
  return std::all_of(parts.begin(), parts.end(), [&](const ExpandablePart& part) {
    const SnapshotSegment& segment = *part.segment;
    const size_t granule =
        round_up(sizes.expandable_granule_bytes(!segment.is_large), granularity_bytes_);
    const size_t offset = segment.address - part.begin;
    const size_t room = reserve.reserve_bytes(segment.stream, granule);
    return offset < room && segment.total_bytes <= room - offset && offset % granule == 0 &&
           segment.total_bytes % granule == 0;
  });
}

Status Replayer::create_engine(const AllocatorOptions& allocator) {
  // Plug-ins are rejected, because the options may come from a file, which must not name code to
  // run.
  if (!allocator.plugin.library.empty()) {
    return Status::invalid_argument(
        "a recording cannot be replayed with a plug-in (expected no plugin_library)");
  }
  Result<std::unique_ptr<Engine>> engine =
      make_engine(machine_->device(kReplayed), allocator, &clock_.clock());
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  pools_.emplace(*engine_);
  delayed_frees_.emplace(*machine_, *engine_);
  return streams_.emplace(machine_->device(kReplayed)).create_all(trace_, allocations_);
}

// Segments without blocks in use are skipped if, with them, the segments with blocks in use would
// exceed the limit: the engine would have flushed them.
Status Replayer::adopt_layout(const Layout& start) {
  size_t needed_bytes = 0;  // size of the remaining segments with blocks in use
  for (const SnapshotSegment& segment : start.segments) {
    if (used_count(segment) > 0) needed_bytes += segment.total_bytes;
  }
  size_t held_bytes = 0;
  const uint32_t* next = start.allocations.data();
  size_t done_count = 0;
  for (const SnapshotSegment& segment : start.segments) {
    if (Status checked = check_cancelled(done_count++); !checked.ok()) return checked;
    const uint32_t* const allocations = next;
    next += used_count(segment);
    const bool is_used = next != allocations;
    if (is_used) needed_bytes -= segment.total_bytes;
    if (segment.is_expandable) {
      held_bytes += segment.total_bytes;
      continue;
    }
    if (held_bytes + segment.total_bytes + (is_used ? 0 : needed_bytes) <= limit_bytes_) {
      if (Status adopted = adopt(segment, allocations); !adopted.ok()) return adopted;
      held_bytes += segment.total_bytes;
      continue;
    }
    result_.starts_as_recorded = false;
    if (is_used) {
      add_oom({.bytes = segment.total_bytes, .stream = segment.stream},
              Status::out_of_memory(
                  text("a segment of ", format_bytes(segment.total_bytes),
                       " predates the trace and does not fit: ", format_bytes(held_bytes), " of ",
                       format_bytes(limit_bytes_), " are in use")));
    }
  }
  return adopt_expandable(start);
}

// Adopts the expandable segments. Parts with the same begin belong to the same segment.
Status Replayer::adopt_expandable(const Layout& start) {
  std::vector<ExpandablePart> parts = expandable_parts_of(start, trace_);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.begin, a.segment->address) < std::tuple(b.begin, b.segment->address);
  });
  for (size_t i = 0; i < parts.size();) {
    const DeviceAddress begin = parts[i].begin;
    const Result<StreamId> stream = streams_->replayed(parts[i].segment->stream);
    if (!stream.ok()) return stream.status();
    if (Status routed = pools_->route_to(parts[i].segment->pool); !routed.ok()) return routed;
    std::vector<SnapshotSegment> segments;
    std::vector<uint32_t> allocations;
    for (; i < parts.size() && parts[i].begin == begin; ++i) {
      segments.push_back(*parts[i].segment);
      segments.back().stream = *stream;
      segments.back().pool = pools_->current();
      allocations.insert(allocations.end(), parts[i].allocations.begin(),
                         parts[i].allocations.end());
    }
    const auto blocks =
        static_cast<classic::ClassicEngine&>(*engine_).adopt_expandable(segments, begin);
    if (!blocks.ok()) return blocks.status();
    for (size_t k = 0; k < blocks->size(); ++k) live_[allocations[k]] = (*blocks)[k];
  }
  return {};
}

// Adopts one segment. `allocations` points to the indexes of the allocations in the segment's used
// blocks, in address order.
Status Replayer::adopt(SnapshotSegment segment, const uint32_t* allocations) {
  machine_->set_next_address(kReplayed, segment.address);
  const StreamId recorded = segment.stream;
  const Result<StreamId> stream = streams_->replayed(recorded);
  if (!stream.ok()) return stream.status();
  segment.stream = *stream;
  if (Status routed = pools_->route_to(segment.pool); !routed.ok()) return routed;
  segment.pool = pools_->current();
  const auto blocks = static_cast<classic::ClassicEngine&>(*engine_).adopt(segment);
  if (blocks.ok()) {
    for (Block* block : *blocks) live_[*allocations++] = block;
  } else if (blocks.status().is_out_of_memory()) {
    result_.starts_as_recorded = false;
    add_oom({.bytes = segment.total_bytes, .stream = recorded}, blocks.status());
  }
  return blocks.ok() || blocks.status().is_out_of_memory() ? Status() : blocks.status();
}

// Performs allocations that predate the trace, in the order of addresses.
Status Replayer::allocate_initial(const std::vector<uint32_t>& before) {
  for (size_t i = 0; i < before.size(); ++i) {
    if (Status checked = check_cancelled(i); !checked.ok()) return checked;
    const uint32_t id = before[i];
    const Allocation& allocation = allocations_.all[id];
    if (Status routed = pools_->route_to(allocation.pool); !routed.ok()) return routed;
    Result<Block*> block = request(allocation.bytes, allocation.stream);
    if (block.ok()) {
      live_[id] = *block;
    } else if (block.status().is_out_of_memory()) {
      add_oom({.bytes = allocation.bytes,
               .stream = allocation.stream,
               .pool = allocation.pool,
               .stack = allocation.stack},
              block.status());
    } else {
      return block.status();
    }
  }
  return {};
}

Status Replayer::perform_all() {
  const auto is_done = [&] { return options_.stop_at_oom && !result_.ooms.empty(); };
  for (uint32_t i = 0; i < trace_.size() && !is_done(); ++i) {
    segments_->advance_to(i);
    clock_.advance_to(trace_[i]);
    if (i > 0 && i == options_.peaks_from) restart_peaks();
    if (Status performed = perform(i); !performed.ok()) return performed;
    peaks_.allocated.finish(i);
    peaks_.reserved.finish(i);
    if (options_.inspect_after == i) inspect();
    if (options_.progress && i % kProgressPeriod == 0) {
      options_.progress(static_cast<double>(i) / static_cast<double>(trace_.size()));
    }
    if (Status checked = check_cancelled(i); !checked.ok()) return checked;
  }
  if (is_done()) inspect();
  return {};
}

// Polls keep_going once per period. `done_count` is the number of entries or allocations that have
// been processed.
Status Replayer::check_cancelled(size_t done_count) const {
  const bool is_due = options_.keep_going && done_count % kReplayPollPeriod == 0;
  if (is_due && !options_.keep_going()) return Status::timeout("the replay was cancelled");
  return {};
}

Status Replayer::perform(uint32_t index) {
  const TraceEntry& entry = trace_[index];
  switch (entry.action) {
    case TraceAction::kAlloc: return allocate(index, entry);
    case TraceAction::kFreeRequested: return free(index);
    case TraceAction::kFreeCompleted: return complete(index);
    case TraceAction::kOom: return retry_failed(index, entry);
    case TraceAction::kSegmentAlloc: segments_->expect(entry); return {};
    case TraceAction::kSegmentFree:
    case TraceAction::kSegmentUnmap: {
      const bool begins = next_flush_ < flushes_.size() && flushes_[next_flush_].begin == index;
      return begins ? flush_cache(flushes_[next_flush_++]) : Status();
    }
    default: return {};
  }
}

Result<Block*> Replayer::request(size_t bytes, StreamId recorded_stream) {
  const Result<StreamId> stream = streams_->replayed(recorded_stream);
  if (!stream.ok()) return stream.status();
  Result<Block*> block = engine_->allocate({bytes, *stream});
  segments_->finish_request();
  return block;
}

Status Replayer::allocate(uint32_t index, const TraceEntry& entry) {
  if (Status ended = end_displaced(index); !ended.ok()) return ended;
  if (entry.bytes == 0) return {};
  const uint32_t id = allocations_.by_entry[index];
  if (Status routed = pools_->route_to(entry.pool); !routed.ok()) return routed;
  Result<Block*> block = request(entry.bytes, entry.stream);
  ++result_.alloc_count;
  if (block.ok()) {
    live_[id] = *block;
    peaks_.allocated.change((*block)->bytes);
    if ((*block)->address == entry.address) ++result_.same_address_count;
  } else if (block.status().is_out_of_memory()) {
    add_oom(oom_at(index), block.status());
  } else {
    return block.status();
  }
  return {};
}

// Ends the allocation that the entry displaces, which has no free entry: frees it, or completes its
// pending free.
Status Replayer::end_displaced(uint32_t index) {
  const std::vector<DisplacedAllocation>& displaced = allocations_.displaced;
  if (next_displaced_ == displaced.size() || displaced[next_displaced_].entry != index) return {};
  const uint32_t id = displaced[next_displaced_++].allocation;
  Block* block = std::exchange(live_[id], nullptr);
  if (block == nullptr) return delayed_frees_->complete(id);
  peaks_.allocated.change(size_t{0} - block->bytes);
  return engine_->free(block);
}

// Repeats a request that failed in the recorded run. If the request succeeds now, the block is
// freed immediately, because the recorded program continued without it.
Status Replayer::retry_failed(uint32_t index, const TraceEntry& entry) {
  if (entry.bytes == 0) return {};
  if (Status routed = pools_->route_to(entry.pool); !routed.ok()) return routed;
  Result<Block*> block = request(entry.bytes, entry.stream);
  if (block.ok()) return engine_->free(*block);
  if (!block.status().is_out_of_memory()) return block.status();
  add_oom(oom_at(index), block.status());
  return {};
}

// Frees the block, if it is live. If the free did not complete immediately in the recording,
// another stream was using the block, and the replayed free stays pending until complete().
Status Replayer::free(uint32_t index) {
  const uint32_t id = allocations_.by_entry[index];
  const Allocation& allocation = allocations_.all[id];
  Block* block = std::exchange(live_[id], nullptr);
  if (block == nullptr) return {};
  peaks_.allocated.change(size_t{0} - block->bytes);
  ++result_.free_count;
  const bool is_immediate =
      allocation.completed_entry == index || allocation.completed_entry == index + 1;
  return is_immediate ? engine_->free(block)
                      : delayed_frees_->free(id, block, allocation.completed_entry);
}

Status Replayer::complete(uint32_t index) {
  const uint32_t id = allocations_.by_entry[index];
  if (live_[id] != nullptr) return free(index);  // the trace has no free_requested entry
  return delayed_frees_->complete(id);
}

// Segments of a private pool are freed only after the pool was released. If all freed segments
// belong to private pools, the program released these pools and did not flush the default pool.
Status Replayer::flush_cache(const CacheFlush& flush) {
  if (!flush.is_explicit) return {};
  bool is_pools_only = true;
  std::vector<PoolId> pools;
  for (uint32_t i = flush.begin; i < flush.end; ++i) {
    const PoolId pool = trace_[i].pool;
    if (pool.is_default()) is_pools_only = false;
    const bool is_new = !pool.is_default() && (pools.empty() || pools.back() != pool);
    if (is_new) pools.push_back(pool);
  }
  return is_pools_only ? pools_->release(pools) : pools_->release_with_default(pools);
}

void Replayer::track(const TraceEntry& entry) {
  if (!is_segment_event(entry.action)) return;
  peaks_.reserved.change(reserved_delta(entry));
  segments_->add(entry, streams_->recorded(entry.stream), result_.alloc_count);
}

ReplayedOom Replayer::oom_at(uint32_t index) const {
  const TraceEntry& entry = trace_[index];
  return {.entry = index,
          .bytes = entry.bytes,
          .was_recorded = entry.action == TraceAction::kOom,
          .stream = entry.stream,
          .pool = entry.pool,
          .stack = entry.stack};
}

void Replayer::add_oom(ReplayedOom oom, const Status& status) {
  oom.message = with_recorded_device(status.message());
  result_.ooms.push_back(std::move(oom));
}

void Replayer::restart_peaks() {
  engine_->reset_peak_stats();
  peaks_.allocated.restart();
  peaks_.reserved.restart();
}

// The simulated machine has one device, whose number in messages is not the recorded one.
std::string Replayer::with_recorded_device(std::string message) const {
  const std::string simulated = text(" on device ", kReplayed, ",");
  const size_t found = message.find(simulated);
  if (found == std::string::npos) return message;
  return message.replace(found, simulated.size(), text(" on device ", options_.device, ","));
}

void Replayer::inspect() {
  result_.inspected_segments = engine_->segments();
  result_.inspected_allocations.clear();
  for (uint32_t id = 0; id < live_.size(); ++id) {
    if (live_[id] != nullptr) result_.inspected_allocations.push_back({live_[id]->address, id});
  }
  std::sort(result_.inspected_allocations.begin(), result_.inspected_allocations.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
}

ReplayResult Replayer::result() {
  result_.event_count = trace_.size();
  result_.stats = engine_->stats();
  result_.allocated_peak_entry = peaks_.allocated.entry();
  result_.reserved_peak_entry = peaks_.reserved.entry();
  result_.driver = machine_->costs(kReplayed);
  result_.recorded_us = duration_us(trace_);
  if (same_settings_) result_.fidelity = segments_->fidelity();
  for (SnapshotSegment& segment : result_.inspected_segments) {
    segment.stream = streams_->recorded(segment.stream);
    segment.pool = pools_->recorded_id(segment.pool);
  }
  return std::move(result_);
}

}  // namespace

size_t assumed_capacity_bytes(const Snapshot& snapshot, DeviceIndex device) {
  return std::clamp(2 * peak_reserved_bytes_of(snapshot, device), kModelledCapacityBytes,
                    sim::kMaxCapacityBytes);
}

Result<ReplayResult> replay(const Snapshot& snapshot, const Allocations& allocations,
                            const ReplayOptions& options) {
  if (options.device.value() >= snapshot.device_traces.size()) {
    return Status::invalid_argument(text("the snapshot has no device ", options.device,
                                         " (expected less than ", snapshot.device_traces.size(),
                                         ")"));
  }
  Replayer replayer(snapshot, allocations, options);
  if (Status ready = replayer.set_up(); !ready.ok()) return ready;
  if (Status performed = replayer.perform_all(); !performed.ok()) return performed;
  return replayer.result();
}

}  // namespace ashlar
