// SPDX-License-Identifier: Apache-2.0
//
// Records and polls events. Releases the lock during device calls.
#include "host/pinned_pending.h"

#include <set>

#include "device/relaxed_capture.h"

namespace ashlar {
namespace {

void keep_first(Status& kept, const Status& status) {
  if (kept.ok()) kept = status;
}

}  // namespace

PinnedPending::~PinnedPending() {
  std::vector<std::pair<Device*, EventId>> events;
  {
    MutexLock lock(mutex_);
    for (const auto& [key, queue] : queues_) {
      for (const PendingEvent& pending : queue) events.emplace_back(key.device, pending.event);
    }
    for (const auto& [device, idle] : idle_events_) {
      for (EventId event : idle) events.emplace_back(device, event);
    }
  }
  for (const auto& [device, event] : events) {
    if (device->destroy_event(event).ok()) continue;
    (void)device->destroy_event(event).ok();
  }
}

// Queues all events of a block together. If they were queued one by one, the first event could
// complete before the second is queued, and the block would seem finished.
Status PinnedPending::add(PinnedBlock* block) {
  const RecordedUses recorded = record_uses(*block);
  MutexLock lock(mutex_);
  enqueue(block, recorded);
  if (!block->uses.empty()) unrecorded_.push_back(block);
  return recorded.failure;
}

PinnedPending::RecordedUses PinnedPending::record_uses(PinnedBlock& block) {
  RecordedUses recorded;
  std::vector<DeviceStream> left;
  for (const DeviceStream& use : block.uses) {
    Result<EventId> event = acquire_event(*use.device);
    if (!event.ok()) {
      keep_first(recorded.failure, event.status());
      left.push_back(use);
      continue;
    }
    const Result<bool> done = record_use(use, *event);
    if (done.ok() && *done) {
      recorded.events.emplace_back(key_of(use), *event);
      continue;
    }
    {
      MutexLock lock(mutex_);
      idle_events_[use.device].push_back(*event);
    }
    keep_first(recorded.failure, done.status());
    if (done.status().is(StatusKind::kInvalidArgument)) {
      recorded.stranded_on.push_back(use.device);
    } else {
      left.push_back(use);
    }
  }
  block.uses = std::move(left);
  return recorded;
}

// Checks for a capture again after recording: another thread may have begun a capture in the
// meantime, and polling a captured event would invalidate the capture.
Result<bool> PinnedPending::record_use(const DeviceStream& use, EventId event) {
  const auto is_capturing = [&]() -> Result<bool> {
    const Result<CaptureState> state = capture_state(use);
    if (!state.ok()) return state.status();
    return state->status != CaptureStatus::kNone;
  };
  const Result<bool> before = is_capturing();
  if (!before.ok() || *before) return before.ok() ? Result<bool>(false) : before;
  if (Status recorded = use.device->record_event(event, use.stream); !recorded.ok()) {
    return recorded;
  }
  const Result<bool> after = is_capturing();
  return after.ok() ? Result<bool>(!*after) : after;
}

Result<EventId> PinnedPending::acquire_event(Device& device) {
  {
    MutexLock lock(mutex_);
    std::vector<EventId>& idle = idle_events_[&device];
    if (!idle.empty()) {
      const EventId event = idle.back();
      idle.pop_back();
      return event;
    }
  }
  return device.create_event();
}

void PinnedPending::enqueue(PinnedBlock* block, const RecordedUses& recorded) {
  for (const auto& [key, event] : recorded.events) {
    queues_[key].push_back({event, block});
    ++block->event_count;
  }
  for (Device* device : recorded.stranded_on) {
    stranded_.push_back({device, block});
    ++block->event_count;
  }
}

PinnedPending::Key PinnedPending::key_of(const DeviceStream& use) {
  return {use.device->properties().index, use.device, use.stream};
}

Status PinnedPending::collect(std::vector<PinnedBlock*>& finished) {
  Round round;
  {
    MutexLock lock(mutex_);
    is_collecting_ = true;
    round.unrecorded.swap(unrecorded_);
  }
  for (PinnedBlock* block : round.unrecorded) keep_first(round.failure, add(block));
  {
    MutexLock lock(mutex_);
    round.queues.swap(queues_);
  }
  for (auto& [key, queue] : round.queues) collect_queue(key, queue, round, finished);
  put_back(round);
  return round.failure;
}

// Collects the blocks of one stream. An event that is invalid on the device, or that was captured
// despite the check in record_use, will never complete; its block becomes stranded.
void PinnedPending::collect_queue(const Key& key, std::deque<PendingEvent>& queue, Round& round,
                                  std::vector<PinnedBlock*>& finished) {
  const RelaxedCapture relaxed(*key.device);
  while (!queue.empty()) {
    const auto [event, block] = queue.front();
    const Result<bool> done = key.device->is_done(event);
    keep_first(round.failure, done.status());
    const bool is_lost = done.status().is(StatusKind::kInvalidArgument);
    if (!is_lost && (!done.ok() || !*done)) return;
    queue.pop_front();
    round.idle_events.emplace_back(key.device, event);
    if (is_lost) {
      round.stranded.push_back({key.device, block});
    } else if (--block->event_count == 0 && block->uses.empty()) {
      finished.push_back(block);
    }
  }
}

// Events that were queued during the round were recorded after the round's events, so they go to
// the back of the queues.
void PinnedPending::put_back(Round& round) {
  std::erase_if(round.queues, [](const auto& entry) { return entry.second.empty(); });
  MutexLock lock(mutex_);
  is_collecting_ = false;
  round.queues.swap(queues_);
  for (const auto& [key, added] : round.queues) {
    std::deque<PendingEvent>& queue = queues_[key];
    queue.insert(queue.end(), added.begin(), added.end());
  }
  for (const auto& [device, event] : round.idle_events) idle_events_[device].push_back(event);
  stranded_.insert(stranded_.end(), round.stranded.begin(), round.stranded.end());
}

Status PinnedPending::wait_for_stranded(std::vector<PinnedBlock*>& finished) {
  std::vector<Stranded> stranded;
  {
    MutexLock lock(mutex_);
    stranded.swap(stranded_);
  }
  Status failure;
  std::map<Device*, Status> waited;
  std::vector<Stranded> left;
  for (const Stranded& each : stranded) {
    if (!waited.contains(each.device)) {
      const RelaxedCapture relaxed(*each.device);
      waited[each.device] = each.device->synchronize_device();
    }
    keep_first(failure, waited[each.device]);
    if (!waited[each.device].ok()) {
      left.push_back(each);
    } else if (--each.block->event_count == 0 && each.block->uses.empty()) {
      finished.push_back(each.block);
    }
  }
  MutexLock lock(mutex_);
  stranded_.insert(stranded_.end(), left.begin(), left.end());
  return failure;
}

void PinnedPending::wait_for_all() {
  std::vector<std::pair<Device*, EventId>> events;
  std::set<Device*> whole_devices;  // devices where events do not cover all work
  {
    MutexLock lock(mutex_);
    for (const auto& [key, queue] : queues_) {
      for (const PendingEvent& pending : queue) events.emplace_back(key.device, pending.event);
    }
    for (const PinnedBlock* block : unrecorded_) {
      for (const DeviceStream& use : block->uses) whole_devices.insert(use.device);
    }
    for (const Stranded& each : stranded_) whole_devices.insert(each.device);
  }
  for (const auto& [device, event] : events) {
    const RelaxedCapture relaxed(*device);
    if (device->synchronize_event(event).ok()) continue;
    (void)device->synchronize_event(event).ok();
  }
  for (Device* device : whole_devices) {
    const RelaxedCapture relaxed(*device);
    if (device->synchronize_device().ok()) continue;
    (void)device->synchronize_device().ok();
  }
}

bool PinnedPending::empty() const {
  MutexLock lock(mutex_);
  return !is_collecting_ && queues_.empty() && unrecorded_.empty();
}

}  // namespace ashlar
