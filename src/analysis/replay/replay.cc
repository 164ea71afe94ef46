// SPDX-License-Identifier: Apache-2.0
//
// The Replayer performs the trace entry by entry on a real engine and a simulated device. The file
// is long because the actions of a trace share the state of one class.
#include "analysis/replay/replay.h"

#include <algorithm>
#include <optional>

#include "analysis/replay/address_predictor.h"
#include "analysis/replay/cache_flushes.h"
#include "analysis/replay/delayed_frees.h"
#include "analysis/replay/initial_state.h"
#include "analysis/replay/replay_pools.h"
#include "analysis/replay/replay_streams.h"
#include "analysis/replay/trace_clock.h"
#include "analysis/settings.h"
#include "analysis/timeline.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/classic/classic_engine.h"
#include "engine/factory/make_engine.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kReplayed{0};
// Capacity of the H200 that the cost model is based on.
constexpr size_t kModelledCapacityBytes = 150109880320;
constexpr uint32_t kProgressPeriod = 65536;  // entries between reports of progress
constexpr uint32_t kReplayPollPeriod = 256;  // entries or allocations between polls of keep_going

class Replayer {
 public:
  Replayer(const Snapshot& snapshot, const Allocations& allocations, const ReplayOptions& options);
  Status set_up();
  Status perform_all();
  ReplayResult result();

 private:
  Status create_engine(const AllocatorOptions& allocator);
  Status adopt_initial_state(const InitialState& start);
  Status adopt(SnapshotSegment segment, const uint32_t* allocations);
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
  void inspect();
  void track(const TraceEntry& entry);

  const Snapshot& snapshot_;
  const std::vector<TraceEntry>& trace_;
  const Allocations& allocations_;
  const ReplayOptions& options_;
  const bool same_settings_;
  const size_t limit_bytes_;  // memory limit of the process

  std::optional<AddressPredictor> addresses_;  // unset: the recorded addresses are used
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
  SegmentTracker segments_;
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
      live_(allocations.all.size()) {}

Status Replayer::set_up() {
  sim::Options machine;
  machine.device_count = 1;
  machine.capacity_bytes = options_.capacity_bytes;
  machine.backing = sim::Backing::kBookkeeping;
  machine.seed = 1;
  machine.clock = &clock_.clock();
  Result<std::unique_ptr<sim::Machine>> made = sim::Machine::try_create(machine);
  if (!made.ok()) return made.status();
  machine_ = *std::move(made);
  if (!same_settings_) {
    addresses_.emplace(trace_);
    machine_->set_address_policy(
        kReplayed, [this](size_t bytes) { return DeviceAddress(addresses_->allocate(bytes)); });
  }
  AllocatorOptions allocator = options_.allocator;
  if (options_.cap_bytes) {
    const auto cap = static_cast<double>(*options_.cap_bytes);
    allocator.memory_fraction = std::min(1.0, cap / static_cast<double>(options_.capacity_bytes));
  }
  if (Status created = create_engine(allocator); !created.ok()) return created;
  const RecordedSizePolicy sizes(options_.recorded);
  const InitialState start =
      reconstruct_initial_state(snapshot_, options_.device, allocations_, sizes);
  // The limit of the recorded run is unknown, but was at least its peak of reserved memory. That
  // peak is used if it exceeds the limit of the replay.
  const size_t recorded_limit =
      std::max(limit_bytes_, peak_reserved_bytes_of(snapshot_, options_.device));
  flushes_ = find_cache_flushes(trace_, {initial_reserved_bytes(snapshot_, options_.device),
                                         recorded_limit, &options_.recorded});
  const bool can_adopt = same_settings_ && start.expandable_bytes == 0 &&
                         options_.allocator.engine == EngineKind::kClassic;
  Status started = can_adopt ? adopt_initial_state(start)
                             : allocate_initial(preexisting_allocations(allocations_));
  if (!started.ok()) return started;
  engine_->reset_peak_stats();
  engine_->reset_total_stats();
  machine_->reset_costs(kReplayed);
  segments_.start(static_cast<size_t>(engine_->stats().reserved_bytes.all.current));
  engine_->add_tracker([this](const TraceEntry& entry) { track(entry); });
  return {};
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

// Adopts the segments of the default pool. The engine cannot adopt segments of other pools;
// performing their allocations creates these segments. Segments without blocks in use are skipped
// if they do not fit beside the segments with blocks in use: the engine would have flushed them.
Status Replayer::adopt_initial_state(const InitialState& start) {
  const auto used_count = [](const SnapshotSegment& segment) {
    return std::count_if(segment.blocks.begin(), segment.blocks.end(), [](const auto& block) {
      return block.state != SnapshotBlockState::kInactive;
    });
  };
  size_t needed_bytes = 0;  // size of the remaining segments with blocks in use
  for (const SnapshotSegment& segment : start.segments) {
    if (used_count(segment) > 0) needed_bytes += segment.total_bytes;
  }
  std::vector<uint32_t> in_pools;
  size_t held_bytes = 0;
  const uint32_t* next = start.allocations.data();
  size_t done_count = 0;
  for (const SnapshotSegment& segment : start.segments) {
    if (Status checked = check_cancelled(done_count++); !checked.ok()) return checked;
    const uint32_t* const allocations = next;
    next += used_count(segment);
    const bool is_used = next != allocations;
    if (is_used) needed_bytes -= segment.total_bytes;
    if (!segment.pool.is_default()) {
      in_pools.insert(in_pools.end(), allocations, next);
    } else if (held_bytes + segment.total_bytes + (is_used ? 0 : needed_bytes) <= limit_bytes_) {
      if (Status adopted = adopt(segment, allocations); !adopted.ok()) return adopted;
      held_bytes += segment.total_bytes;
    } else if (is_used) {
      add_oom({.bytes = segment.total_bytes, .stream = segment.stream},
              Status::out_of_memory(
                  text("a segment of ", format_bytes(segment.total_bytes),
                       " predates the trace and does not fit: ", format_bytes(held_bytes), " of ",
                       format_bytes(limit_bytes_), " are in use")));
    }
  }
  return allocate_initial(in_pools);
}

// Adopts one segment. `allocations` points to the indexes of the allocations in the segment's used
// blocks, in address order.
Status Replayer::adopt(SnapshotSegment segment, const uint32_t* allocations) {
  machine_->set_next_address(kReplayed, segment.address);
  const StreamId recorded = segment.stream;
  const Result<StreamId> stream = streams_->replayed(recorded);
  if (!stream.ok()) return stream.status();
  segment.stream = *stream;
  const auto blocks = static_cast<classic::ClassicEngine&>(*engine_).adopt(segment);
  if (blocks.ok()) {
    for (Block* block : *blocks) live_[*allocations++] = block;
  } else if (blocks.status().is_out_of_memory()) {
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
    segments_.set_entry(i);
    if (addresses_) addresses_->advance_to(i);
    clock_.advance_to(trace_[i]);
    if (Status performed = perform(i); !performed.ok()) return performed;
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
    case TraceAction::kSegmentAlloc:
      // Under the recorded settings, the next segment gets the recorded address. Addresses matter:
      // among blocks of equal size, the engine takes the block at the lowest address.
      if (same_settings_) machine_->set_next_address(kReplayed, entry.address);
      return {};
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
  return engine_->allocate({bytes, *stream});
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
  return block == nullptr ? delayed_frees_->complete(id) : engine_->free(block);
}

// Repeats a request that failed in the recorded run. If the request succeeds now, the block is
// freed immediately, because the recorded program continued without it.
Status Replayer::retry_failed(uint32_t index, const TraceEntry& entry) {
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
  const bool is_freed = entry.action == TraceAction::kSegmentFree;
  if (addresses_ && is_freed) addresses_->free(entry.address.value());
  segments_.add(entry, streams_->recorded(entry.stream), result_.alloc_count);
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
  oom.message = status.message();
  result_.ooms.push_back(std::move(oom));
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
  result_.driver = machine_->costs(kReplayed);
  result_.recorded_us = duration_us(trace_);
  result_.reserved = segments_.take_changes();
  result_.peak_entry = segments_.peak_entry();
  if (same_settings_) {
    result_.fidelity = compare(segment_events_of(trace_), segments_.events());
  }
  for (SnapshotSegment& segment : result_.inspected_segments) {
    segment.stream = streams_->recorded(segment.stream);
    segment.pool = pools_->recorded_id(segment.pool);
  }
  return std::move(result_);
}

}  // namespace

size_t assumed_capacity_bytes(const Snapshot& snapshot, DeviceIndex device) {
  return std::max(kModelledCapacityBytes, 2 * peak_reserved_bytes_of(snapshot, device));
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
