// SPDX-License-Identifier: Apache-2.0
//
// Marks each block as used by a stream with blocked work, and runs that work task by task.
#include "analysis/replay/delayed_frees.h"

#include <iterator>
#include <utility>

namespace ashlar {

Status DelayedFrees::free(uint32_t allocation, Block* block, uint32_t completed_entry) {
  const Result<StandInStreams::iterator> stream = acquire_stream(completed_entry);
  if (!stream.ok()) return stream.status();
  Status blocked = block_free((*stream)->second, block);
  pending_[allocation] = {*stream, (*stream)->second.queued_count};
  return blocked;
}

// Takes the stream whose last free completes latest among those that complete before this one, so
// that the fewest streams are needed.
Result<DelayedFrees::StandInStreams::iterator> DelayedFrees::acquire_stream(
    uint32_t completed_entry) {
  const auto later = streams_.upper_bound(completed_entry);
  if (later != streams_.begin()) {
    auto node = streams_.extract(std::prev(later));
    node.key() = completed_entry;
    return streams_.insert(std::move(node));
  }
  if (idle_streams_.empty()) {
    const Result<StreamId> made = engine_.device().create_stream();
    if (!made.ok()) return made.status();
    ++stream_count_;
    idle_streams_.push_back({.id = *made});
  }
  const auto added = streams_.emplace(completed_entry, std::move(idle_streams_.back()));
  idle_streams_.pop_back();
  return added;
}

Status DelayedFrees::block_free(StandInStream& stream, Block* block) {
  Device& device = engine_.device();
  Status status = machine_.pause_stream_until_waited(device.properties().index, stream.id);
  if (status.ok()) {
    status = device.call_host(stream.id, [run_count = stream.run_count] { ++*run_count; });
  }
  if (!status.ok()) return status;
  ++stream.queued_count;
  status = engine_.record_stream(block, {&device, stream.id});
  return status.ok() ? engine_.free(block) : status;
}

// Runs the tasks of the stream up to that of the free. Uses Machine::step instead of a device call,
// because device calls may run further tasks.
Status DelayedFrees::complete(uint32_t allocation) {
  const auto found = pending_.find(allocation);
  if (found == pending_.end()) return {};
  const auto [entry, number] = found->second;
  pending_.erase(found);
  StandInStream& stream = entry->second;
  const DeviceIndex device = engine_.device().properties().index;
  if (Status resumed = machine_.resume_stream(device, stream.id); !resumed.ok()) return resumed;
  while (*stream.run_count < number && machine_.step()) {
  }
  Status paused = machine_.pause_stream_until_waited(device, stream.id);
  if (number == stream.queued_count) {
    idle_streams_.push_back(std::move(stream));
    streams_.erase(entry);
  }
  return paused;
}

}  // namespace ashlar
