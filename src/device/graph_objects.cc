// SPDX-License-Identifier: Apache-2.0
//
// Keeps one record for each graph. A ticket's destructor moves the map node of its record, which
// needs no memory, to the map of released records, which the thread destroys.
#include "device/graph_objects.h"

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "base/guarded_thread.h"
#include "base/host_memory.h"
#include "device/relaxed_capture.h"

namespace ashlar {

class GraphObjectReleaser::State {
 public:
  bool in_creating_process() const { return fork_guard_.in_creating_process(); }
  bool is_empty() const ASHLAR_EXCLUDES(mutex_);

  // Starts the thread unless it is running.
  Status start_thread(Device& device) ASHLAR_EXCLUDES(mutex_);
  // Ends the thread after it has destroyed the released objects.
  void stop_thread() ASHLAR_EXCLUDES(mutex_);

  // Adds the object to the capture's record. Returns false if the capture has no record.
  bool try_add(CaptureId capture, const std::shared_ptr<const void>& object)
      ASHLAR_EXCLUDES(mutex_);
  uint64_t add_record(CaptureId capture, std::shared_ptr<const void> object)
      ASHLAR_EXCLUDES(mutex_);
  // Drops a record, whose objects the caller owns too. Releasing the record has no effect then.
  void drop_record(uint64_t id) ASHLAR_EXCLUDES(mutex_);
  // Makes the thread destroy the record's objects. Does nothing if they have been destroyed.
  void release_record(uint64_t id) noexcept ASHLAR_EXCLUDES(mutex_);
  // Destroys the objects of all records in the calling thread.
  void destroy_all() ASHLAR_EXCLUDES(mutex_);

 private:
  struct Record {
    CaptureId capture;
    std::vector<std::shared_ptr<const void>> objects;  // in the order of retention
  };
  // Records by number, which increases. Unlike a capture's id, a number is never used twice, not
  // even after `attach` has failed.
  using Records = std::map<uint64_t, Record>;

  void run(Device& device) ASHLAR_EXCLUDES(mutex_);
  static void destroy(Records& records);

  const ForkGuard fork_guard_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Records retained_ ASHLAR_GUARDED_BY(mutex_);
  Records released_ ASHLAR_GUARDED_BY(mutex_);
  bool is_destroying_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  uint64_t last_record_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::optional<GuardedThread> thread_ ASHLAR_GUARDED_BY(mutex_);
};

bool GraphObjectReleaser::State::is_empty() const {
  MutexLock lock(mutex_);
  return retained_.empty() && released_.empty() && !is_destroying_;
}

// --- the thread

Status GraphObjectReleaser::State::start_thread(Device& device) {
  MutexLock lock(mutex_);
  if (thread_) return {};
  Result<GuardedThread> started = GuardedThread::start([this, &device] { run(device); });
  if (!started.ok()) return started.status();
  thread_.emplace(*std::move(started));
  return {};
}

void GraphObjectReleaser::State::stop_thread() {
  std::optional<GuardedThread> stopped;  // joined after unlocking
  MutexLock lock(mutex_);
  is_stopping_ = true;
  changed_.notify_all();
  if (thread_) stopped.emplace(*std::move(thread_));
  thread_.reset();
}

void GraphObjectReleaser::State::run(Device& device) {
  for (;;) {
    Records due;
    {
      MutexLock lock(mutex_);
      is_destroying_ = false;
      while (released_.empty() && !is_stopping_) lock.wait(changed_);
      if (released_.empty()) return;
      due.swap(released_);
      is_destroying_ = true;
    }
    const RelaxedCapture relaxed(device);
    destroy(due);
  }
}

void GraphObjectReleaser::State::destroy(Records& records) {
  for (auto& [id, record] : records) {
    while (!record.objects.empty()) record.objects.pop_back();
  }
}

// --- records

// Searches from the newest record, because captures in progress have the newest records.
bool GraphObjectReleaser::State::try_add(CaptureId capture,
                                         const std::shared_ptr<const void>& object) {
  MutexLock lock(mutex_);
  const auto found = std::find_if(retained_.rbegin(), retained_.rend(),
                                  [&](const auto& each) { return each.second.capture == capture; });
  if (found == retained_.rend()) return false;
  std::vector<std::shared_ptr<const void>>& objects = found->second.objects;
  if (std::ranges::find(objects, object) == objects.end()) objects.push_back(object);
  return true;
}

uint64_t GraphObjectReleaser::State::add_record(CaptureId capture,
                                                std::shared_ptr<const void> object) {
  Record record{capture, {}};
  record.objects.push_back(std::move(object));
  MutexLock lock(mutex_);
  const uint64_t id = last_record_ + 1;
  retained_.emplace(id, std::move(record));
  last_record_ = id;
  return id;
}

void GraphObjectReleaser::State::drop_record(uint64_t id) {
  Records::node_type dropped;  // destroyed after unlocking
  MutexLock lock(mutex_);
  dropped = retained_.extract(id);
}

void GraphObjectReleaser::State::release_record(uint64_t id) noexcept {
  MutexLock lock(mutex_);
  Records::node_type record = retained_.extract(id);
  if (record.empty()) return;
  released_.insert(std::move(record));
  changed_.notify_all();
}

void GraphObjectReleaser::State::destroy_all() {
  Records rest;
  {
    MutexLock lock(mutex_);
    rest.swap(retained_);
    rest.merge(released_);
  }
  destroy(rest);
}

// --- interface

GraphObjectReleaser::Ticket::~Ticket() {
  if (state_->in_creating_process()) state_->release_record(record_);
}

GraphObjectReleaser::GraphObjectReleaser(Device& device)
    : device_(device), state_(make_fork_guarded<State>()) {}

GraphObjectReleaser::~GraphObjectReleaser() { shut_down(); }

Status GraphObjectReleaser::retain(CaptureId capture, std::shared_ptr<const void> object,
                                   const Attach& attach) {
  MutexLock lock(attach_mutex_);
  if (state_->try_add(capture, object)) return {};
  if (Status started = state_->start_thread(device_); !started.ok()) return started;
  const uint64_t record = state_->add_record(capture, object);
  ScopeGuard undo([&] { state_->drop_record(record); });
  Status attached = attach(std::make_unique<Ticket>(state_, record));
  if (attached.ok()) undo.dismiss();
  return attached;
}

bool GraphObjectReleaser::is_empty() const { return state_->is_empty(); }

void GraphObjectReleaser::shut_down() {
  if (!state_->in_creating_process()) return;
  state_->stop_thread();
  if (state_->is_empty()) return;
  const RelaxedCapture relaxed(device_);
  state_->destroy_all();
}

}  // namespace ashlar
