// SPDX-License-Identifier: Apache-2.0
//
// The order of things is the trace's; everything else is the engine's doing. Long because all acts
// of a run share its state.
#include "analysis/replay/replay.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "analysis/replay/address_predictor.h"
#include "analysis/replay/cache_flushes.h"
#include "analysis/replay/delayed_frees.h"
#include "analysis/replay/initial_state.h"
#include "analysis/replay/replay_pools.h"
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
constexpr size_t kModelledCapacity = 150109880320;  // the H200 that the costs were measured on

class Run {
 public:
  Run(const Snapshot& snapshot, const Allocations& allocations, const ReplayOptions& options);
  Status set_up();
  Status perform_all();
  ReplayResult result();

 private:
  Status create_engine(const AllocatorOptions& allocator);
  Status start_as_recorded(const StartingState& start);
  Status adopt(SnapshotSegment segment, const uint32_t* allocations);
  Status start_with(const std::vector<uint32_t>& before);
  Status perform(uint32_t index);
  Status allocate(uint32_t index, const TraceEntry& entry);
  Status ask_for_what_failed(uint32_t index, const TraceEntry& entry);
  Status free(uint32_t index);
  Status complete(uint32_t index);
  Status end_displaced(uint32_t index);
  Status give_back(const Flush& flush);
  StreamId stream_of(StreamId recorded);
  ReplayedOom oom_at(uint32_t index) const;
  void note_oom(ReplayedOom oom, const Status& status);
  void look();
  void see(const TraceEntry& entry);

  const Snapshot& snapshot_;
  const std::vector<TraceEntry>& trace_;
  const Allocations& allocations_;
  const ReplayOptions& options_;
  const bool same_settings_;
  const size_t limit_bytes_;  // that the process may have

  std::optional<LikelyAddresses> addresses_;  // unless they are the recorded ones
  RecordedTime time_;
  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<Engine> engine_;
  std::optional<ReplayPools> pools_;  // of the engine
  std::optional<HeldFrees> held_frees_;
  std::unordered_map<StreamId, StreamId> streams_;   // recorded to replayed
  std::unordered_map<StreamId, StreamId> recorded_;  // and back
  std::vector<Flush> flushes_;
  size_t next_flush_ = 0;
  size_t next_displaced_ = 0;

  std::vector<Block*> live_;  // by allocation
  uint32_t current_entry_ = 0;
  size_t reserved_bytes_ = 0;
  size_t peak_bytes_ = 0;
  std::vector<SegmentAct> acts_;
  ReplayResult result_;
};

Run::Run(const Snapshot& snapshot, const Allocations& allocations, const ReplayOptions& options)
    : snapshot_(snapshot),
      trace_(snapshot.device_traces[options.device.value()]),
      allocations_(allocations),
      options_(options),
      same_settings_(same_policy(options.allocator, options.recorded)),
      limit_bytes_(std::min(options.capacity_bytes, options.cap_bytes.value_or(SIZE_MAX))),
      live_(allocations.all.size()) {}

// --- setting up ----------------------------------------------------------------------------------

Status Run::set_up() {
  sim::Options machine;
  machine.device_count = 1;
  machine.capacity_bytes = options_.capacity_bytes;
  machine.backing = sim::Backing::kBookkeeping;
  machine.seed = 1;
  machine.clock = &time_.clock();
  Result<std::unique_ptr<sim::Machine>> made = sim::Machine::create(machine);
  if (!made.ok()) return made.status();
  machine_ = *std::move(made);
  if (!same_settings_) {
    addresses_.emplace(trace_);
    machine_->place_by(kReplayed,
                       [this](size_t bytes) { return DeviceAddress(addresses_->take(bytes)); });
  }
  AllocatorOptions allocator = options_.allocator;
  if (options_.cap_bytes) {
    const auto cap = static_cast<double>(*options_.cap_bytes);
    allocator.memory_fraction = std::min(1.0, cap / static_cast<double>(options_.capacity_bytes));
  }
  if (Status created = create_engine(allocator); !created.ok()) return created;
  // In the order of the recorded handles: what is given back is given back in that order.
  std::vector<StreamId> handles;
  for (const TraceEntry& entry : trace_) {
    if (handles.empty() || handles.back() != entry.stream) handles.push_back(entry.stream);
  }
  for (const Allocation& allocation : allocations_.all) {
    if (handles.empty() || handles.back() != allocation.stream)
      handles.push_back(allocation.stream);
  }
  std::sort(handles.begin(), handles.end());
  for (const StreamId handle : handles) stream_of(handle);

  const RecordedSizes sizes(options_.recorded);
  const StartingState start = rebuild_start(snapshot_, options_.device, allocations_, sizes);
  // The limit of the recorded run is not known, but it cannot have been below what it had.
  const size_t recorded_limit = std::max(limit_bytes_, most_reserved(snapshot_, options_.device));
  flushes_ = find_flushes(
      trace_, {reserved_before(snapshot_, options_.device), recorded_limit, &options_.recorded});
  const bool can_adopt = same_settings_ && start.expandable_bytes == 0 &&
                         options_.allocator.engine == EngineKind::kClassic;
  Status started = can_adopt ? start_as_recorded(start) : start_with(present_before(allocations_));
  if (!started.ok()) return started;
  engine_->reset_peak_stats();
  engine_->reset_total_stats();
  machine_->reset_costs(kReplayed);
  reserved_bytes_ = peak_bytes_ = static_cast<size_t>(engine_->stats().reserved_bytes.all.current);
  result_.reserved.push_back({0, reserved_bytes_});
  engine_->add_tracker([this](const TraceEntry& entry) { see(entry); });
  return {};
}

Status Run::create_engine(const AllocatorOptions& allocator) {
  // The options may come from a file, which must not name code to run.
  if (!allocator.plugin.library.empty()) {
    return Status::invalid_argument(
        "a recording cannot be replayed with a plug-in (expected no plugin_library)");
  }
  Result<std::unique_ptr<Engine>> engine =
      make_engine(machine_->device(kReplayed), allocator, &time_.clock());
  if (!engine.ok()) return engine.status();
  engine_ = *std::move(engine);
  pools_.emplace(*engine_);
  held_frees_.emplace(*machine_, *engine_);
  return {};
}

// Segments of the default pool are taken over as they were. The engine cannot do that with those of
// other pools: they come about by their allocations. What was only cached is left out if there is
// no room for it, as any allocation would have flushed it.
Status Run::start_as_recorded(const StartingState& start) {
  const auto used_count = [](const SnapshotSegment& segment) {
    return std::count_if(segment.blocks.begin(), segment.blocks.end(), [](const auto& block) {
      return block.state != SnapshotBlockState::kInactive;
    });
  };
  size_t needed_bytes = 0;  // by the segments in use that are still to come
  for (const SnapshotSegment& segment : start.segments) {
    if (used_count(segment) > 0) needed_bytes += segment.total_bytes;
  }
  std::vector<uint32_t> in_pools;
  size_t held_bytes = 0;
  const uint32_t* next = start.allocations.data();
  for (const SnapshotSegment& segment : start.segments) {
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
      note_oom({.bytes = segment.total_bytes, .stream = segment.stream},
               Status::out_of_memory(text("a segment of ", format_bytes(segment.total_bytes),
                                          " was there when the trace began, with ",
                                          format_bytes(held_bytes), " beside it, and only ",
                                          format_bytes(limit_bytes_), " are allowed")));
    }
  }
  return start_with(in_pools);
}

// `allocations`: those of the segment's blocks in use, in order.
Status Run::adopt(SnapshotSegment segment, const uint32_t* allocations) {
  machine_->place_next(kReplayed, segment.address);
  const StreamId recorded = std::exchange(segment.stream, stream_of(segment.stream));
  const auto blocks = static_cast<classic::ClassicEngine&>(*engine_).adopt(segment);
  if (blocks.ok()) {
    for (Block* block : *blocks) live_[*allocations++] = block;
  } else if (blocks.status().is_out_of_memory()) {
    note_oom({.bytes = segment.total_bytes, .stream = recorded}, blocks.status());
  }
  return blocks.ok() || blocks.status().is_out_of_memory() ? Status() : blocks.status();
}

// By address, for want of a better order.
Status Run::start_with(const std::vector<uint32_t>& before) {
  for (const uint32_t id : before) {
    const Allocation& allocation = allocations_.all[id];
    if (Status routed = pools_->use(allocation.pool); !routed.ok()) return routed;
    Result<Block*> block = engine_->allocate({allocation.bytes, stream_of(allocation.stream)});
    if (block.ok()) {
      live_[id] = *block;
    } else if (block.status().is_out_of_memory()) {
      note_oom({.bytes = allocation.bytes,
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

StreamId Run::stream_of(StreamId recorded) {
  const auto [place, is_new] = streams_.try_emplace(recorded, kDefaultStream);
  if (is_new && recorded != kDefaultStream) {
    place->second = *machine_->device(kReplayed).create_stream();
  }
  if (is_new) recorded_[place->second] = recorded;
  return place->second;
}

// --- the acts ------------------------------------------------------------------------------------

Status Run::perform_all() {
  const auto is_over = [&] { return options_.stop_at_oom && !result_.ooms.empty(); };
  for (uint32_t i = 0; i < trace_.size() && !is_over(); ++i) {
    current_entry_ = i;
    if (addresses_) addresses_->go_to(i);
    time_.wait_for(trace_[i]);
    if (Status performed = perform(i); !performed.ok()) return performed;
    if (options_.look_after == i) look();
    if (options_.progress && i % 65536 == 0) {
      options_.progress(static_cast<double>(i) / static_cast<double>(trace_.size()));
    }
    const bool is_asked = options_.is_wanted && i % 65536 == 0;
    if (is_asked && !options_.is_wanted()) return Status::timeout("nobody waits for the replay");
  }
  if (is_over()) look();
  return {};
}

Status Run::perform(uint32_t index) {
  const TraceEntry& entry = trace_[index];
  switch (entry.action) {
    case TraceAction::kAlloc: return allocate(index, entry);
    case TraceAction::kFreeRequested: return free(index);
    case TraceAction::kFreeCompleted: return complete(index);
    case TraceAction::kOom: return ask_for_what_failed(index, entry);
    case TraceAction::kSegmentAlloc:
      // Among equal blocks the lowest address is taken, and where a segment lies is the driver's
      // choice.
      if (same_settings_) machine_->place_next(kReplayed, entry.address);
      return {};
    case TraceAction::kSegmentFree:
    case TraceAction::kSegmentUnmap: {
      const bool begins = next_flush_ < flushes_.size() && flushes_[next_flush_].begin == index;
      return begins ? give_back(flushes_[next_flush_++]) : Status();
    }
    default: return {};
  }
}

Status Run::allocate(uint32_t index, const TraceEntry& entry) {
  if (Status ended = end_displaced(index); !ended.ok()) return ended;
  if (entry.bytes == 0) return {};
  const uint32_t id = allocations_.of_entry[index];
  if (Status routed = pools_->use(entry.pool); !routed.ok()) return routed;
  Result<Block*> block = engine_->allocate({entry.bytes, stream_of(entry.stream)});
  ++result_.alloc_count;
  if (block.ok()) {
    live_[id] = *block;
    if ((*block)->address == entry.address) ++result_.same_address_count;
  } else if (block.status().is_out_of_memory()) {
    note_oom(oom_at(index), block.status());
  } else {
    return block.status();
  }
  return {};
}

// What the entry displaces is gone, though no entry of its own says so: freed, if its owner still
// had it, and not pending any more.
Status Run::end_displaced(uint32_t index) {
  const std::vector<DisplacedAllocation>& displaced = allocations_.displaced;
  if (next_displaced_ == displaced.size() || displaced[next_displaced_].entry != index) return {};
  const uint32_t id = displaced[next_displaced_++].allocation;
  Block* block = std::exchange(live_[id], nullptr);
  return block == nullptr ? held_frees_->let_go(id) : engine_->free(block);
}

// The program lived on without it; where it can be had now, it is had for a moment.
Status Run::ask_for_what_failed(uint32_t index, const TraceEntry& entry) {
  if (Status routed = pools_->use(entry.pool); !routed.ok()) return routed;
  Result<Block*> block = engine_->allocate({entry.bytes, stream_of(entry.stream)});
  if (block.ok()) return engine_->free(*block);
  if (!block.status().is_out_of_memory()) return block.status();
  note_oom(oom_at(index), block.status());
  return {};
}

// If its memory could not be used again at once, some stream was still using it.
Status Run::free(uint32_t index) {
  const uint32_t id = allocations_.of_entry[index];
  const Allocation& allocation = allocations_.all[id];
  Block* block = std::exchange(live_[id], nullptr);
  if (block == nullptr) return {};
  ++result_.free_count;
  const bool at_once = allocation.completed == index || allocation.completed == index + 1;
  return at_once ? engine_->free(block) : held_frees_->free(id, block);
}

Status Run::complete(uint32_t index) {
  const uint32_t id = allocations_.of_entry[index];
  if (live_[id] != nullptr) return free(index);  // its request is not in the trace
  return held_frees_->let_go(id);
}

// A pool whose segments go was let go first. Where nothing but pools gave back, the program let go
// of them and left the rest of its cache as it was.
Status Run::give_back(const Flush& flush) {
  if (!flush.asked_for) return {};
  bool is_of_pools = true;
  std::vector<PoolId> pools;
  for (uint32_t i = flush.begin; i < flush.end; ++i) {
    const PoolId pool = trace_[i].pool;
    if (pool.is_default()) is_of_pools = false;
    const bool is_new = !pool.is_default() && (pools.empty() || pools.back() != pool);
    if (is_new) pools.push_back(pool);
  }
  return is_of_pools ? pools_->give_back(pools) : pools_->give_back_with_default(pools);
}

// --- what is seen --------------------------------------------------------------------------------

void Run::see(const TraceEntry& entry) {
  if (!is_segment_act(entry.action)) return;
  const bool goes = entry.action == TraceAction::kSegmentFree;
  if (addresses_ && goes) addresses_->give_back(entry.address.value());
  acts_.push_back({entry.action, entry.bytes, recorded_[entry.stream], result_.alloc_count});
  reserved_bytes_ += reserved_change(entry);
  result_.reserved.push_back({current_entry_, reserved_bytes_});
  if (reserved_bytes_ <= peak_bytes_) return;
  peak_bytes_ = reserved_bytes_;
  result_.peak_entry = current_entry_;
}

ReplayedOom Run::oom_at(uint32_t index) const {
  const TraceEntry& entry = trace_[index];
  return {.entry = index,
          .bytes = entry.bytes,
          .was_recorded = entry.action == TraceAction::kOom,
          .stream = entry.stream,
          .pool = entry.pool,
          .stack = entry.stack};
}

void Run::note_oom(ReplayedOom oom, const Status& status) {
  oom.message = status.message();
  result_.ooms.push_back(std::move(oom));
}

void Run::look() {
  result_.looked_at = engine_->segments();
  result_.live_then.clear();
  for (uint32_t id = 0; id < live_.size(); ++id) {
    if (live_[id] != nullptr) result_.live_then.push_back({live_[id]->address, id});
  }
  std::sort(result_.live_then.begin(), result_.live_then.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
}

ReplayResult Run::result() {
  result_.event_count = trace_.size();
  result_.stats = engine_->stats();
  result_.driver = machine_->costs(kReplayed);
  result_.recorded_us = duration_us(trace_);
  if (same_settings_) result_.fidelity = compare(segment_acts_of(trace_), acts_);
  for (SnapshotSegment& segment : result_.looked_at) {
    segment.stream = recorded_[segment.stream];
    segment.pool = pools_->recorded_of(segment.pool);
  }
  return std::move(result_);
}

}  // namespace

size_t assumed_capacity_bytes(const Snapshot& snapshot, DeviceIndex device) {
  return std::max(kModelledCapacity, 2 * most_reserved(snapshot, device));
}

Result<ReplayResult> replay(const Snapshot& snapshot, const Allocations& allocations,
                            const ReplayOptions& options) {
  if (options.device.value() >= snapshot.device_traces.size()) {
    return Status::invalid_argument(text("there is no device ", options.device,
                                         " in the snapshot, which has ",
                                         snapshot.device_traces.size()));
  }
  Run run(snapshot, allocations, options);
  if (Status ready = run.set_up(); !ready.ok()) return ready;
  if (Status performed = run.perform_all(); !performed.ok()) return performed;
  return run.result();
}

}  // namespace ashlar
