// SPDX-License-Identifier: Apache-2.0
//
// Runs one worker thread with low priority, so that the page stays responsive.
#include "view/analysis_worker.h"

#include <sys/resource.h>

#include <new>
#include <nlohmann/json.hpp>

#include "base/thread.h"
#include "view/json_text.h"

namespace ashlar::view {
namespace {

constexpr int kNiceness = 10;

http::Response out_of_memory_response() noexcept {
  http::Response response;
  response.code = 500;
  try {
    return http::error_response(500, "the analysis needs more memory than is available");
  } catch (const std::bad_alloc&) {
    return response;  // without a body: there is no memory for one, either
  }
}

}  // namespace

AnalysisWorker::~AnalysisWorker() {
  std::thread worker;
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    worker.swap(worker_);
    changed_.notify_all();
  }
  if (worker.joinable()) worker.join();
}

http::Response AnalysisWorker::poll(const Document& document, std::string_view name) {
  MutexLock lock(mutex_);
  return start_locked(document, name).response;
}

http::Response AnalysisWorker::wait(const Document& document, std::string_view name) {
  MutexLock lock(mutex_);
  Job& job = start_locked(document, name);
  while (!job.is_done) lock.wait(changed_);
  return job.response;
}

AnalysisWorker::Job& AnalysisWorker::start_locked(const Document& document, std::string_view name) {
  const JsonAnalysis& analysis = analyses_.by_name.find(name)->second;
  const Request request(&document, &analysis);
  const auto [place, is_new] = jobs_.try_emplace(request);
  Job& job = place->second;
  if (!is_new) return job;
  job.response.code = 202;
  job.response.body = json_text({{"loading", analysis.activity}});
  if (!worker_.joinable()) {
    Result<std::thread> worker = start_thread([this] { work(); });
    if (!worker.ok()) {
      job.response = http::error_response(500, worker.status().message());
      job.is_done = true;
      return job;
    }
    worker_ = *std::move(worker);
  }
  queue_.push_back(request);
  changed_.notify_all();
  return job;
}

void AnalysisWorker::work() {
  // The niceness applies to this thread and to the threads that it starts. Errors are ignored.
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNiceness));
  while (true) {
    Request request;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !is_stopping_) lock.wait(changed_);
      if (is_stopping_) return;
      request = queue_.front();
      queue_.pop_front();
    }
    http::Response response = compute(request);
    MutexLock lock(mutex_);
    jobs_.find(request)->second = {.is_done = true, .response = std::move(response)};
    changed_.notify_all();
  }
}

// Never throws, because an exception would end the process.
http::Response AnalysisWorker::compute(const Request& request) const noexcept {
  const auto [document, analysis] = request;
  try {
    Result<std::string> body =
        analysis->compute(document->device_recording(), [this] { return keep_going(); });
    if (!body.ok()) return http::error_response(404, body.status().message());
    http::Response response;
    response.body = *std::move(body);
    return response;
  } catch (...) {
    return out_of_memory_response();
  }
}

bool AnalysisWorker::keep_going() const {
  MutexLock lock(mutex_);
  return !is_stopping_;
}

}  // namespace ashlar::view
