// SPDX-License-Identifier: Apache-2.0
//
// Computes analyses of documents in the background, one at a time, on first request. Thread safe.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "analysis/json_analysis.h"
#include "ashlar/status.h"
#include "base/mutex.h"
#include "http/response.h"
#include "view/document.h"

namespace ashlar::view {

class AnalysisWorker {
 public:
  // REQUIRES: `analyses` outlives this object.
  explicit AnalysisWorker(const JsonAnalyses& analyses) : analyses_(analyses) {}
  // Cancels the computation in progress and waits for it.
  ~AnalysisWorker();
  AnalysisWorker(const AnalysisWorker&) = delete;
  AnalysisWorker& operator=(const AnalysisWorker&) = delete;

  // Returns the response to a request for the result of an analysis. Until the result is ready, its
  // HTTP status is 202.
  // REQUIRES: `document` outlives this object, and `name` is in the analyses.
  http::Response poll(const Document& document, std::string_view name);
  // Like poll, but waits until the response is ready.
  http::Response wait(const Document& document, std::string_view name);

 private:
  // A document and the requested analysis, an element of analyses_.
  using Request = std::pair<const Document*, const JsonAnalysis*>;
  struct Job {
    bool is_done = false;
    http::Response response{};
  };

  Job& start_locked(const Document& document, std::string_view name) ASHLAR_REQUIRES(mutex_);
  void work();
  http::Response compute(const Request& request) const noexcept;
  bool keep_going() const;

  const JsonAnalyses& analyses_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<Request, Job> jobs_ ASHLAR_GUARDED_BY(mutex_);
  std::list<Request> queue_ ASHLAR_GUARDED_BY(mutex_);
  std::thread worker_ ASHLAR_GUARDED_BY(mutex_);  // started by the first request
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::view
