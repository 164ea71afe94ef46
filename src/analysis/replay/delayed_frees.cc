// SPDX-License-Identifier: Apache-2.0
//
// Records a stream with blocked work as a user of each block, and runs the work task by task.
#include "analysis/replay/delayed_frees.h"

#include <iterator>
#include <utility>

namespace ashlar {

Status DelayedFrees::free(uint32_t allocation, Block* block, uint32_t completed_entry) {
  const Result<UserMap::iterator> user = acquire_user(completed_entry);
  if (!user.ok()) return user.status();
  Status blocked = block_free((*user)->second, block);
  pending_[allocation] = {*user, (*user)->second.queued_count};
  return blocked;
}

// Takes the stream whose last free completes latest among those that complete before this one, so
// that the fewest streams are needed.
Result<DelayedFrees::UserMap::iterator> DelayedFrees::acquire_user(uint32_t completed_entry) {
  const auto later = users_.upper_bound(completed_entry);
  if (later != users_.begin()) {
    auto node = users_.extract(std::prev(later));
    node.key() = completed_entry;
    return users_.insert(std::move(node));
  }
  if (idle_users_.empty()) {
    const Result<StreamId> made = engine_.device().create_stream();
    if (!made.ok()) return made.status();
    ++stream_count_;
    idle_users_.push_back({.stream = *made});
  }
  const auto added = users_.emplace(completed_entry, std::move(idle_users_.back()));
  idle_users_.pop_back();
  return added;
}

Status DelayedFrees::block_free(User& user, Block* block) {
  Device& device = engine_.device();
  Status status = machine_.pause_stream_until_waited(device.properties().index, user.stream);
  if (status.ok()) {
    status = device.call_host(user.stream, [run_count = user.run_count] { ++*run_count; });
  }
  if (!status.ok()) return status;
  ++user.queued_count;
  status = engine_.record_stream(block, {&device, user.stream});
  return status.ok() ? engine_.free(block) : status;
}

// Runs the tasks of the stream up to that of the free. Uses Machine::step instead of a device call,
// because device calls may run further tasks.
Status DelayedFrees::complete(uint32_t allocation) {
  const auto found = pending_.find(allocation);
  if (found == pending_.end()) return {};
  const auto [entry, number] = found->second;
  pending_.erase(found);
  User& user = entry->second;
  const DeviceIndex device = engine_.device().properties().index;
  if (Status resumed = machine_.resume_stream(device, user.stream); !resumed.ok()) return resumed;
  while (*user.run_count < number && machine_.step()) {
  }
  Status paused = machine_.pause_stream_until_waited(device, user.stream);
  if (number == user.queued_count) {
    idle_users_.push_back(std::move(user));
    users_.erase(entry);
  }
  return paused;
}

}  // namespace ashlar
