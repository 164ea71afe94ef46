// SPDX-License-Identifier: Apache-2.0
//
// Performs the operations of a run; paged_account.cc does the accounting.
#include "paged_run.h"

#include <algorithm>

#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/paged/pool/size_classes.h"

namespace ashlar::model {

PagedSetting draw_paged_setting(uint64_t seed, bool has_contents) {
  Random random(seed);
  PagedSetting setting;
  setting.seed = seed;
  setting.has_contents = has_contents;
  setting.capacity_bytes = (size_t{64} << random.below(has_contents ? 1 : 3)) * kMiB;
  constexpr std::array kPolicies = {PagedPolicy::kFast, PagedPolicy::kBalanced, PagedPolicy::kLean};
  setting.options.policy = kPolicies[random.below(kPolicies.size())];
  setting.options.shareable_expandable_segments = random.below(5) == 0;
  if (random.below(3) == 0) setting.options.memory_fraction = 0.8;
  return setting;
}

std::string to_text(const PagedSetting& setting) {
  constexpr std::array kNames = {"fast", "balanced", "lean"};
  const AllocatorOptions& options = setting.options;
  const size_t policy = options.policy == PagedPolicy::kFast       ? 0
                        : options.policy == PagedPolicy::kBalanced ? 1
                                                                   : 2;
  return text("capacity ", setting.capacity_bytes >> 20, " MiB, policy ", kNames[policy],
              ", shareable ", options.shareable_expandable_segments, ", fraction ",
              options.memory_fraction, ", contents ", setting.has_contents);
}

PagedRun::PagedRun(const PagedSetting& setting) : setting_(setting) {
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = setting.capacity_bytes;
  options.backing = setting.has_contents ? sim::Backing::kMemory : sim::Backing::kBookkeeping;
  options.seed = setting.seed;
  machine_ = *sim::Machine::try_create(options);
  engine_ = std::make_unique<paged::PagedEngine>(device(), setting.options);
  engine_->add_tracker([this](const TraceEntry& entry) { on_trace_entry(entry); });
  for (StreamId& stream : streams_) stream = *device().create_stream();
  streams_[0] = kDefaultStream;
  event_ = *device().create_event();
  for (const StreamId stream : streams_) keep_busy(stream);
}

PagedRun::~PagedRun() {
  for (const StreamId stream : streams_) finish(stream);
}

void PagedRun::step(const Operation& operation) {
  const StreamId stream = streams_[operation.which % kStreams];
  PoolSlot& slot = slots_[operation.number % slots_.size()];
  const std::optional<size_t> index = live_index_of(operation);
  switch (operation.kind) {
    case OperationKind::kAllocate: allocate(operation, stream); break;
    case OperationKind::kFree:
      if (index) free(*index);
      break;
    case OperationKind::kUse:
      if (index) use(live_[*index], stream);
      break;
    case OperationKind::kFinish:
      finish(stream);
      keep_busy(stream);
      break;
    case OperationKind::kTrim: expect_ok(engine_->trim(), "trim"); break;
    case OperationKind::kFraction:
      expect_ok(engine_->set_memory_fraction(std::array{1.0, 0.9, 0.6}[operation.number % 3]),
                "limit");
      break;
    case OperationKind::kRoute: route(slot, stream); break;
    case OperationKind::kUnroute: unroute(slot); break;
    case OperationKind::kDrop: drop(slot); break;
    case OperationKind::kCapture:  // only the classic runs test captures
    case OperationKind::kWork:
    case OperationKind::kOrder:
    case OperationKind::kEnd:
      for (uint64_t i = 0; i < operation.number % 4; ++i) machine_->step();
      break;
  }
}

std::optional<size_t> PagedRun::live_index_of(const Operation& operation) const {
  const bool targets_block =
      operation.kind == OperationKind::kFree || operation.kind == OperationKind::kUse;
  if (!targets_block || live_.empty()) return std::nullopt;
  if (!operation.target) return operation.number % live_.size();
  for (size_t i = 0; i < live_.size(); ++i) {
    if (live_[i].allocated_by == *operation.target) return i;
  }
  return std::nullopt;
}

std::optional<size_t> PagedRun::target_of(const Operation& operation) const {
  const std::optional<size_t> index = live_index_of(operation);
  return index ? std::optional(live_[*index].allocated_by) : std::nullopt;
}

void PagedRun::allocate(const Operation& operation, StreamId stream) {
  // Blocks with contents have at most 12 MiB, because writing and reading large blocks is slow.
  const size_t bytes =
      setting_.has_contents ? 1 + operation.number % (12 * kMiB) : operation.number;
  const Result<Block*> block = engine_->allocate({bytes, stream});
  if (!block.ok()) {
    if (!block.status().is_out_of_memory()) expect_ok(block.status(), "allocate");
    return;
  }
  const size_t least_bytes = paged::SizeClasses::block_bytes(bytes);
  const bool may_be_larger = bytes > paged::SizeClasses::kExactBytes && SizePolicy::is_small(bytes);
  const size_t most_bytes = least_bytes + (may_be_larger ? least_bytes / 8 : 0);
  if ((*block)->bytes < least_bytes || (*block)->bytes > most_bytes) {
    return disagree(text((*block)->bytes, " B were handed out for ", bytes));
  }
  if ((*block)->stream != stream) return disagree("a block of a foreign stream");
  record_block(**block);
  const LiveBlock live{
      *block, operation.id, {(*block)->address, (*block)->bytes, ++last_stamp_id_}};
  live_.push_back(live);
  if (setting_.has_contents) {
    expect_ok(machine_->try_launch(kDevice, stream, stress::write_stamp(live.stamp)), "stamp");
  }
}

void PagedRun::free(size_t index) {
  const LiveBlock live = live_[index];
  live_[index] = live_.back();
  live_.pop_back();
  if (setting_.has_contents) {
    expect_ok(machine_->try_launch(kDevice, live.block->stream,
                                   stress::check_stamp(live.stamp, mismatches_)),
              "check");
  }
  expect_ok(engine_->free(live.block), "free");
}

// Uses the block on `stream`, ordered after the work on the block's own stream.
void PagedRun::use(const LiveBlock& live, StreamId stream) {
  expect_ok(device().record_event(event_, live.block->stream), "record_event");
  expect_ok(device().wait_event(stream, event_), "wait_event");
  if (setting_.has_contents) {
    expect_ok(machine_->try_launch(kDevice, stream, stress::check_stamp(live.stamp, mismatches_)),
              "check");
  }
  expect_ok(engine_->record_stream(live.block, {&device(), stream}), "record_stream");
}

// Pauses the stream until it is resumed or waited for, and queues work on it. Does nothing for the
// default stream.
void PagedRun::keep_busy(StreamId stream) {
  if (stream == kDefaultStream) return;
  expect_ok(machine_->pause_stream_until_waited(kDevice, stream), "hold");
  expect_ok(device().call_host(stream, [] {}), "call_host");
}

void PagedRun::finish(StreamId stream) {
  expect_ok(machine_->resume_stream(kDevice, stream), "resume");
  expect_ok(device().synchronize_stream(stream), "synchronize");
}

void PagedRun::route(PoolSlot& slot, StreamId stream) {
  if (slot.is_routed) return;
  if (!slot.exists) slot = {PoolId{0, ++last_pool_}, /*exists=*/true, /*is_routed=*/false};
  expect_ok(
      engine_->begin_routing(slot.id, [stream](StreamId candidate) { return candidate == stream; }),
      "begin_routing");
  slot.is_routed = true;
}

void PagedRun::unroute(PoolSlot& slot) {
  if (!slot.is_routed) return;
  expect_ok(engine_->end_routing(slot.id), "end_routing");
  slot.is_routed = false;
}

void PagedRun::drop(PoolSlot& slot) {
  if (!slot.exists) return;
  unroute(slot);
  for (int left = *engine_->pool_use_count(slot.id); left > 0; --left) {
    expect_ok(engine_->release_pool(slot.id), "release_pool");
  }
  slot.exists = false;
}

}  // namespace ashlar::model
