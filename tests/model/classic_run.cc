// SPDX-License-Identifier: Apache-2.0
//
// Runs each operation on the engine, then on the model, then compares the results.
#include "operations.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "classic_run.h"

namespace ashlar::model {
namespace {

// A pool's own source, whose segments are plain even if expandable segments are on.
class DeviceSource final : public SegmentSource {
 public:
  explicit DeviceSource(Device& device) : device_(device) {}
  Result<DeviceAddress> allocate(size_t bytes, StreamId /*stream*/) override {
    return device_.allocate(bytes);
  }
  void free(DeviceAddress address, size_t /*bytes*/) override { (void)device_.free(address).ok(); }

 private:
  Device& device_;
};

}  // namespace

void ClassicRun::on_trace_entry(const TraceEntry& entry) {
  const bool concerns_device =
      entry.action == TraceAction::kSegmentAlloc || entry.action == TraceAction::kSegmentFree ||
      entry.action == TraceAction::kSegmentMap || entry.action == TraceAction::kSegmentUnmap;
  if (concerns_device) operations_.push_back({entry.action, entry.address.value(), entry.bytes});
}

void ClassicRun::step(const Operation& operation) {
  const StreamId stream = streams_[operation.which % streams_.size()];
  const size_t slot = operation.number % slots_.size();
  const std::optional<size_t> index = live_index_of(operation);
  switch (operation.kind) {
    case OperationKind::kAllocate: allocate(operation, stream); break;
    case OperationKind::kFree:
      if (index) free(*index);
      break;
    case OperationKind::kUse:
      if (index && stream != kDefaultStream) use(live_[*index], stream);
      break;
    case OperationKind::kFinish:
      finish(stream);
      keep_busy(stream);
      break;
    case OperationKind::kTrim: trim(); break;
    case OperationKind::kFraction: {
      const std::array<double, 4> fractions = {1, 0.9, 0.6, 1};
      (void)engine_->set_memory_fraction(fractions[slot]).ok();
      model_.set_fraction(fractions[slot]);
      break;
    }
    case OperationKind::kRoute: route(slot, stream); break;
    case OperationKind::kUnroute: unroute(slot); break;
    case OperationKind::kDrop: drop(slot); break;
    case OperationKind::kCapture: begin_capture(slot, stream); break;
    case OperationKind::kWork: work(stream); break;
    case OperationKind::kOrder: {
      if (!capture_.is_active()) break;
      const std::vector<StreamId>& captured = capture_.streams();
      const StreamId other = captured[operation.number / 2 % captured.size()];
      const bool is_first = operation.number % 2 == 0;
      order(is_first ? other : stream, is_first ? stream : other);
      break;
    }
    case OperationKind::kEnd: end_capture(); break;
  }
  compare_operations();
}

std::optional<size_t> ClassicRun::live_index_of(const Operation& operation) const {
  const bool targets_block =
      operation.kind == OperationKind::kFree || operation.kind == OperationKind::kUse;
  if (!targets_block || live_.empty()) return std::nullopt;
  if (!operation.target) return operation.number % live_.size();
  const auto found = std::find_if(live_.begin(), live_.end(), [&](const Live& each) {
    return each.allocated_by == *operation.target;
  });
  if (found == live_.end()) return std::nullopt;
  return static_cast<size_t>(found - live_.begin());
}

// Finishes all streams first if the engine may wait for them. For a capturing stream, the engine
// polls no events, so no pending free completes.
void ClassicRun::allocate(const Operation& operation, StreamId stream) {
  const size_t bytes = operation.number;
  const bool is_capturing = capture_.includes(stream);
  if (is_capturing) {
    reuse_within_capture(stream);
  } else {
    complete();
  }
  const bool may_wait = model_.may_wait_for_streams(bytes, stream);
  if (may_wait) finish_all();
  if (may_wait && !is_capturing) complete();
  while (model_.unused_address_count() < 4) add_segment_address();
  const Result<Block*> block = engine_->allocate({bytes, stream});
  const std::optional<uint64_t> predicted = model_.allocate(bytes, stream);
  if (may_wait) keep_all_busy();
  if (!block.ok() && !block.status().is_out_of_memory()) disagree(block.status().to_string());
  if (block.ok()) live_.push_back({*block, (*block)->address.value(), operation.id, {}, {}});
  if (block.ok() != predicted.has_value()) {
    disagree(text("the model says ", predicted ? "a block" : "out of memory", ", the engine ",
                  block.ok() ? "a block" : block.status().to_string()));
  } else if (block.ok() && live_.back().address != *predicted) {
    disagree(text("the model says address ", *predicted, ", the engine ", live_.back().address));
  }
}

// Draws an unused address for a new segment. Addresses are far enough apart for any segment.
void ClassicRun::add_segment_address() {
  constexpr uint64_t kFirstAddress = uint64_t{1} << 50;
  constexpr uint64_t kSlotCount = uint64_t{1} << 18;
  uint64_t slot = random_.below(kSlotCount);
  while (!used_slots_.insert(slot).second) slot = random_.below(kSlotCount);
  const uint64_t address = kFirstAddress + slot * kGiB;
  machine_->set_next_address(kDevice, DeviceAddress(address));
  model_.add_segment_address(address);
}

void ClassicRun::free(size_t which) {
  const Live live = live_[which];
  live_[which] = live_.back();
  live_.pop_back();
  std::set<StreamId> streams = live.uses;
  streams.insert(live.block->stream);
  if (Status freed = engine_->free(live.block); !freed.ok()) disagree(freed.to_string());
  model_.free(live.address, live.uses.empty() ? BlockState::kFree : BlockState::kPending);
  if (live.uses.empty()) return;
  if (involves_capture(live)) {
    deferred_.push_back({live, capture_.markers(streams)});
  } else {
    pending_[live.address] = live.uses;
  }
}

// Outside a capture, the engine completes all pending frees before it trims. During a capture, it
// does not wait for pending frees.
void ClassicRun::trim() {
  finish_all();
  if (!capture_.is_active()) complete();
  if (Status trimmed = engine_->trim({}); !trimmed.ok()) disagree(trimmed.to_string());
  model_.trim();
  keep_all_busy();
}

void ClassicRun::use(Live& live, StreamId stream) {
  if (Status used = engine_->record_stream(live.block, {&device(), stream}); !used.ok()) {
    disagree(used.to_string());
  }
  if (live.block->stream == stream) return;
  const bool is_new = live.uses.insert(stream).second;
  if (!capture_.includes(stream)) live.capture_uses.erase(stream);
  if (capture_.includes(stream) && is_new) live.capture_uses.insert(stream);
}

// --- pools

void ClassicRun::route(size_t slot, StreamId stream) {
  const bool is_routed =
      std::any_of(model_.pools().begin(), model_.pools().end(),
                  [&](const auto& each) { return each.second.routed_stream == stream; });
  if (is_routed) return;
  if (!model_.pools().contains(slots_[slot])) {
    slots_[slot] = PoolId{0, ++last_pool_};
    ModelPool& added = model_.pools()[slots_[slot]];
    added.use_on_oom = slot == 1 || slot == 3;
    added.no_split = slot == 2;
    added.has_source = slot == 3;
    PoolOptions options{.use_on_oom = added.use_on_oom, .no_split = added.no_split};
    if (added.has_source) options.source = std::make_shared<DeviceSource>(device());
    (void)engine_->create_pool(slots_[slot], std::move(options)).ok();
  }
  ModelPool& pool = model_.pools()[slots_[slot]];
  if (pool.freeable || pool.routed_stream) return;
  pool.routed_stream = stream;
  const Status begun = engine_->begin_routing(
      slots_[slot], [stream](StreamId candidate) { return candidate == stream; });
  if (!begun.ok()) disagree(begun.to_string());
}

void ClassicRun::unroute(size_t slot) {
  const auto pool = model_.pools().find(slots_[slot]);
  if (pool == model_.pools().end() || !pool->second.routed_stream) return;
  pool->second.routed_stream.reset();
  const bool ended = engine_->end_routing(slots_[slot]).ok();
  if (!ended || !engine_->release_pool(slots_[slot]).ok()) disagree("the routing did not end");
}

void ClassicRun::drop(size_t slot) {
  const auto pool = model_.pools().find(slots_[slot]);
  if (pool == model_.pools().end() || pool->second.routed_stream || pool->second.freeable) return;
  pool->second.freeable = true;
  if (!engine_->release_pool(slots_[slot]).ok()) disagree("the pool was not released");
}

// --- comparison

void ClassicRun::compare_operations() {
  const std::vector<DeviceOperation> predicted = model_.take_operations();
  const std::vector<DeviceOperation> actual = std::exchange(operations_, {});
  if (predicted == actual) return;
  std::string what = "device calls differ; the model:";
  for (const DeviceOperation& each : predicted) {
    what += text(" ", name(each.action), "(", each.address, ", ", each.bytes, ")");
  }
  what += "; the engine:";
  for (const DeviceOperation& each : actual) {
    what += text(" ", name(each.action), "(", each.address, ", ", each.bytes, ")");
  }
  disagree(std::move(what));
}

void ClassicRun::check_sums() {
  if (Status valid = engine_->validate(); !valid.ok()) disagree(valid.to_string());
  const AllocatorStats sums = model_.sums();
  const AllocatorStats stats = engine_->stats();
  const auto compare = [&](std::string_view what, const StatTriple& a, const StatTriple& b) {
    const bool same = a.all.current == b.all.current &&
                      a.small_pool.current == b.small_pool.current &&
                      a.large_pool.current == b.large_pool.current;
    if (!same) disagree(text(what, ": ", a.all.current, " by the model, ", b.all.current));
  };
  compare("allocation", sums.allocation, stats.allocation);
  compare("allocated_bytes", sums.allocated_bytes, stats.allocated_bytes);
  compare("active", sums.active, stats.active);
  compare("active_bytes", sums.active_bytes, stats.active_bytes);
  compare("requested_bytes", sums.requested_bytes, stats.requested_bytes);
  compare("segment", sums.segment, stats.segment);
  compare("reserved_bytes", sums.reserved_bytes, stats.reserved_bytes);
  compare("inactive_split", sums.inactive_split, stats.inactive_split);
  compare("inactive_split_bytes", sums.inactive_split_bytes, stats.inactive_split_bytes);
  if (stats.ooms != model_.ooms()) disagree("ooms differ");
  if (stats.alloc_retries != model_.retries()) disagree("alloc_retries differ");
  for (const PoolId& pool : slots_) {
    if (pool.is_default()) continue;
    const bool exists = engine_->pool_use_count(pool).ok();
    if (exists != model_.pools().contains(pool))
      disagree("a pool exists that should not, or vice versa");
  }
}

}  // namespace ashlar::model
