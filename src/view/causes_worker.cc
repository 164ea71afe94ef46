// SPDX-License-Identifier: Apache-2.0
//
// Runs one worker thread with low priority, so that the page stays responsive.
#include "view/causes_worker.h"

#include <sys/resource.h>

#include <new>

#include "base/thread.h"

namespace ashlar::view {
namespace {

constexpr int kNiceness = 10;

}  // namespace

CausesWorker::~CausesWorker() {
  std::thread worker;
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    worker.swap(worker_);
    changed_.notify_all();
  }
  if (worker.joinable()) worker.join();
}

http::Response CausesWorker::poll(const Document& document) {
  MutexLock lock(mutex_);
  return start_locked(document).response;
}

http::Response CausesWorker::wait(const Document& document) {
  MutexLock lock(mutex_);
  Job& job = start_locked(document);
  while (!job.is_done) lock.wait(changed_);
  return job.response;
}

CausesWorker::Job& CausesWorker::start_locked(const Document& document) {
  const auto [place, is_new] = jobs_.try_emplace(&document);
  Job& job = place->second;
  if (!is_new) return job;
  job.response.code = 202;
  job.response.body = "{\"loading\": \"replaying the run under other settings\"}\n";
  if (!document.has_history()) {
    job.response =
        http::error_response(404, "the recording has no history of this device to replay");
    job.is_done = true;
    return job;
  }
  if (!worker_.joinable()) {
    Result<std::thread> worker = start_thread([this] { work(); });
    if (!worker.ok()) {
      job.response = http::error_response(500, worker.status().message());
      job.is_done = true;
      return job;
    }
    worker_ = *std::move(worker);
  }
  queue_.push_back(&document);
  changed_.notify_all();
  return job;
}

void CausesWorker::work() {
  // The niceness applies to this thread and to the threads that it starts. Errors are ignored.
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNiceness));
  while (true) {
    const Document* document = nullptr;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !is_stopping_) lock.wait(changed_);
      if (is_stopping_) return;
      document = queue_.front();
      queue_.pop_front();
    }
    http::Response response = compute(*document);
    MutexLock lock(mutex_);
    jobs_[document] = {.is_done = true, .response = std::move(response)};
    changed_.notify_all();
  }
}

http::Response CausesWorker::compute(const Document& document) const {
  try {
    Result<std::string> body =
        compute_(document.device_recording(), [this] { return keep_going(); });
    if (!body.ok()) return http::error_response(404, body.status().message());
    http::Response response;
    response.body = *std::move(body);
    return response;
  } catch (const std::bad_alloc&) {
    return http::error_response(500, "the analysis needs more memory than is available");
  }
}

bool CausesWorker::keep_going() const {
  MutexLock lock(mutex_);
  return !is_stopping_;
}

}  // namespace ashlar::view
