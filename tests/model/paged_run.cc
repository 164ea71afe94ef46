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
  engine_->add_tracker([this](const TraceEntry& entry) { listen(entry); });
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
  const std::optional<size_t> place = place_of(operation);
  switch (operation.kind) {
    case Kind::kAllocate: allocate(operation, stream); break;
    case Kind::kFree:
      if (place) free(*place);
      break;
    case Kind::kUse:
      if (place) use(live_[*place], stream);
      break;
    case Kind::kFinish:
      finish(stream);
      keep_busy(stream);
      break;
    case Kind::kTrim: must(engine_->trim(), "trim"); break;
    case Kind::kFraction:
      must(engine_->set_memory_fraction(std::array{1.0, 0.9, 0.6}[operation.number % 3]), "limit");
      break;
    case Kind::kRoute: route(slot, stream); break;
    case Kind::kUnroute: unroute(slot); break;
    case Kind::kDrop: drop(slot); break;
    case Kind::kCapture:  // captures are tested by the classic model
    case Kind::kWork:
    case Kind::kOrder:
    case Kind::kEnd:
      for (uint64_t i = 0; i < operation.number % 4; ++i) machine_->step();
      break;
  }
}

std::optional<size_t> PagedRun::place_of(const Operation& operation) const {
  const bool targets_block = operation.kind == Kind::kFree || operation.kind == Kind::kUse;
  if (!targets_block || live_.empty()) return std::nullopt;
  if (!operation.target) return operation.number % live_.size();
  for (size_t i = 0; i < live_.size(); ++i) {
    if (live_[i].allocated_by == *operation.target) return i;
  }
  return std::nullopt;
}

std::optional<size_t> PagedRun::target_of(const Operation& operation) const {
  const std::optional<size_t> place = place_of(operation);
  return place ? std::optional(live_[*place].allocated_by) : std::nullopt;
}

void PagedRun::allocate(const Operation& operation, StreamId stream) {
  // Memory with contents is written and read, which is slow for large blocks.
  const size_t bytes =
      setting_.has_contents ? 1 + operation.number % (12 * kMiB) : operation.number;
  const Result<Block*> block = engine_->allocate({bytes, stream});
  if (!block.ok()) {
    if (!block.status().is_out_of_memory()) must(block.status(), "allocate");
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
  const Live live{*block, operation.id, {(*block)->address, (*block)->bytes, ++last_name_}};
  live_.push_back(live);
  if (setting_.has_contents) {
    must(machine_->try_launch(kDevice, stream, stress::write_stamp(live.stamp)), "stamp");
  }
}

void PagedRun::free(size_t place) {
  const Live live = live_[place];
  live_[place] = live_.back();
  live_.pop_back();
  if (setting_.has_contents) {
    must(machine_->try_launch(kDevice, live.block->stream,
                              stress::check_stamp(live.stamp, mismatches_)),
         "check");
  }
  must(engine_->free(live.block), "free");
}

// Ordered after the work of the block's own stream.
void PagedRun::use(const Live& live, StreamId stream) {
  must(device().record_event(event_, live.block->stream), "record_event");
  must(device().wait_event(stream, event_), "wait_event");
  if (setting_.has_contents) {
    must(machine_->try_launch(kDevice, stream, stress::check_stamp(live.stamp, mismatches_)),
         "check");
  }
  must(engine_->record_stream(live.block, {&device(), stream}), "record_stream");
}

// Work on all streams but the default one waits until the stream is resumed or waited for.
void PagedRun::keep_busy(StreamId stream) {
  if (stream == kDefaultStream) return;
  must(machine_->pause_stream_until_waited(kDevice, stream), "hold");
  must(device().call_host(stream, [] {}), "call_host");
}

void PagedRun::finish(StreamId stream) {
  must(machine_->resume_stream(kDevice, stream), "resume");
  must(device().synchronize_stream(stream), "synchronize");
}

void PagedRun::route(PoolSlot& slot, StreamId stream) {
  if (slot.is_routed) return;
  if (!slot.exists) slot = {PoolId{0, ++last_pool_}, /*exists=*/true, /*is_routed=*/false};
  must(engine_->begin_routing(slot.id, [stream](StreamId asked) { return asked == stream; }),
       "begin_routing");
  slot.is_routed = true;
}

void PagedRun::unroute(PoolSlot& slot) {
  if (!slot.is_routed) return;
  must(engine_->end_routing(slot.id), "end_routing");
  slot.is_routed = false;
}

void PagedRun::drop(PoolSlot& slot) {
  if (!slot.exists) return;
  unroute(slot);
  for (int left = *engine_->pool_use_count(slot.id); left > 0; --left) {
    must(engine_->release_pool(slot.id), "release_pool");
  }
  slot.exists = false;
}

}  // namespace ashlar::model
