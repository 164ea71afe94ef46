// SPDX-License-Identifier: Apache-2.0
//
// Records and polls events. Releases the lock during device calls.
#include "host/pinned_pending.h"

#include <new>
#include <utility>

#include "base/host_memory.h"
#include "device/relaxed_capture.h"

namespace ashlar {
namespace {

// Keeps the first error. Ignores kHostOutOfMemory, because the work that failed is retried.
void keep_first(Status& kept, const Status& status) {
  if (kept.ok() && !status.is(StatusKind::kHostOutOfMemory)) kept = status;
}

}  // namespace

// Retries failures once, because no later call can.
PinnedPending::~PinnedPending() {
  const auto destroy = [](Device& device, EventId event) {
    if (!device.destroy_event(event).ok()) (void)device.destroy_event(event).ok();
  };
  Queues queues;
  std::map<Device*, DeviceEvents> events;
  {
    MutexLock lock(mutex_);
    queues.swap(queues_);
    events.swap(events_);
  }
  for (const auto& [key, queue] : queues) {
    for (const PendingEvent& pending : queue) destroy(*key.device, pending.event);
  }
  for (const auto& [device, of_device] : events) {
    for (EventId event : of_device.idle) destroy(*device, event);
  }
}

// Queues all events of a block together. If they were queued one by one, the first event could
// complete before the second is queued, and the block would seem finished.
Status PinnedPending::add(PinnedBlock* block) noexcept {
  RecordedUses recorded;
  record_uses(*block, recorded);
  MutexLock lock(mutex_);
  for (const auto& [key, queue] : recorded.queues) {
    block->event_count += static_cast<uint32_t>(queue.size());
  }
  block->event_count += static_cast<uint32_t>(recorded.stranded.size());
  append_to_queues(recorded.queues);
  stranded_.splice(stranded_.end(), recorded.stranded);
  if (!block->uses.empty()) unrecorded_.push_back(block);
  return recorded.failure;
}

void PinnedPending::record_uses(PinnedBlock& block, RecordedUses& recorded) {
  std::erase_if(block.uses, [&](const DeviceStream& use) {
    try {
      return record_use(block, use, recorded);
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
}

// Allocates the list element first, because a recorded event must not be lost.
bool PinnedPending::record_use(PinnedBlock& block, const DeviceStream& use,
                               RecordedUses& recorded) {
  Events element = {{use.device, {}, &block}};
  Queues queue;
  queue[key_of(use)];
  const Result<EventId> event = acquire_event(*use.device);
  if (!event.ok()) {
    keep_first(recorded.failure, event.status());
    return false;
  }
  const Result<bool> done = record_event(use, *event);
  if (done.ok() && *done) {
    element.front().event = *event;
    recorded.queues.merge(queue);
    Events& recorded_queue = recorded.queues.find(key_of(use))->second;
    recorded_queue.splice(recorded_queue.end(), element);
    return true;
  }
  {
    MutexLock lock(mutex_);
    recycle_event(*use.device, *event);
  }
  keep_first(recorded.failure, done.status());
  if (!done.status().is(StatusKind::kInvalidArgument)) return false;
  recorded.stranded.splice(recorded.stranded.end(), element);
  return true;
}

// Checks for a capture again after recording: another thread may have begun a capture in the
// meantime, and polling a captured event would invalidate the capture.
Result<bool> PinnedPending::record_event(const DeviceStream& use, EventId event) {
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
    DeviceEvents& events = events_[&device];
    if (!events.idle.empty()) {
      const EventId event = events.idle.back();
      events.idle.pop_back();
      return event;
    }
    ++events.created_count;
    ScopeGuard undo([&] { --events.created_count; });
    reserve_amortized(events.idle, events.created_count);
    undo.dismiss();
  }
  Result<EventId> created = device.create_event();
  if (!created.ok()) {
    MutexLock lock(mutex_);
    --events_.find(&device)->second.created_count;
  }
  return created;
}

void PinnedPending::recycle_event(Device& device, EventId event) {
  events_.find(&device)->second.idle.push_back(event);
}

void PinnedPending::append_to_queues(Queues& added) {
  queues_.merge(added);
  for (auto& [key, events] : added) {  // the streams that already had a queue
    Events& queue = queues_.find(key)->second;
    queue.splice(queue.end(), events);
  }
}

PinnedPending::Key PinnedPending::key_of(const DeviceStream& use) {
  return {use.device->properties().index, use.device, use.stream};
}

Status PinnedPending::collect(PinnedBlockList& finished) noexcept {
  Round round;
  PinnedBlockList unrecorded;
  {
    MutexLock lock(mutex_);
    is_collecting_ = true;
    unrecorded.append(unrecorded_);
  }
  while (PinnedBlock* block = unrecorded.pop_front()) keep_first(round.failure, add(block));
  {
    MutexLock lock(mutex_);
    round.queues.swap(queues_);
  }
  for (auto& [key, queue] : round.queues) collect_queue(queue, round, finished);
  put_back(round);
  return round.failure;
}

// Collects the blocks of one stream. An event that is invalid on the device, or that was captured
// despite the check in record_event, will never complete. Its block becomes stranded.
void PinnedPending::collect_queue(Events& queue, Round& round, PinnedBlockList& finished) {
  const RelaxedCapture relaxed(*queue.front().device);
  while (!queue.empty()) {
    const PendingEvent first = queue.front();
    const Result<bool> done = first.device->is_done(first.event);
    keep_first(round.failure, done.status());
    const bool is_lost = done.status().is(StatusKind::kInvalidArgument);
    if (!is_lost && (!done.ok() || !*done)) return;
    Events& target = is_lost ? round.lost : round.completed;
    target.splice(target.end(), queue, queue.begin());
    if (is_lost) continue;
    if (--first.block->event_count == 0 && first.block->uses.empty()) {
      finished.push_back(first.block);
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
  append_to_queues(round.queues);
  for (const Events* events : {&round.completed, &round.lost}) {
    for (const PendingEvent& each : *events) recycle_event(*each.device, each.event);
  }
  stranded_.splice(stranded_.end(), round.lost);
}

Status PinnedPending::wait_for_stranded(PinnedBlockList& finished) noexcept {
  Events stranded;
  {
    MutexLock lock(mutex_);
    stranded.swap(stranded_);
  }
  Status failure;
  Events left;
  while (!stranded.empty()) {
    Device& device = *stranded.front().device;
    Status waited;
    {
      const RelaxedCapture relaxed(device);
      waited = device.synchronize_device();
    }
    if (failure.ok()) failure = waited;
    for (auto each = stranded.begin(); each != stranded.end();) {
      const auto current = each++;
      if (current->device != &device) continue;
      if (!waited.ok()) {
        left.splice(left.end(), stranded, current);
        continue;
      }
      PinnedBlock* block = current->block;
      if (--block->event_count == 0 && block->uses.empty()) finished.push_back(block);
      stranded.erase(current);
    }
  }
  MutexLock lock(mutex_);
  stranded_.splice(stranded_.end(), left);
  return failure;
}

void PinnedPending::wait_for_all() noexcept {
  Queues queues;
  PinnedBlockList unrecorded;
  Events stranded;
  {
    MutexLock lock(mutex_);
    queues.swap(queues_);
    unrecorded.append(unrecorded_);
    stranded.swap(stranded_);
  }
  for (const auto& [key, queue] : queues) {
    const RelaxedCapture relaxed(*key.device);
    for (const PendingEvent& each : queue) {
      if (each.device->synchronize_event(each.event).ok()) continue;
      (void)each.device->synchronize_event(each.event).ok();
    }
  }
  Device* waited_for = nullptr;  // skips repeated waits for one device
  const auto wait_for_device = [&](Device* device) {
    if (device == waited_for) return;
    waited_for = device;
    const RelaxedCapture relaxed(*device);
    if (!device->synchronize_device().ok()) (void)device->synchronize_device().ok();
  };
  for (const PinnedBlock* block = unrecorded.first(); block != nullptr; block = block->next) {
    for (const DeviceStream& use : block->uses) wait_for_device(use.device);
  }
  for (const PendingEvent& each : stranded) wait_for_device(each.device);
  MutexLock lock(mutex_);
  queues_.swap(queues);  // the destructor destroys the events
}

bool PinnedPending::empty() const {
  MutexLock lock(mutex_);
  return !is_collecting_ && queues_.empty() && unrecorded_.empty();
}

}  // namespace ashlar
