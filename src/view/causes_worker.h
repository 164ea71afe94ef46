// SPDX-License-Identifier: Apache-2.0
//
// Computes causes.json for documents in the background, one at a time, on first request. Thread
// safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <thread>

#include "ashlar/status.h"
#include "base/mutex.h"
#include "http/response.h"
#include "view/document.h"

namespace ashlar::view {

// Explains the gap between reserved and requested bytes, as JSON text. Polls `keep_going`, possibly
// from several threads, and returns early if the result is false.
using CausesFunction = std::function<Result<std::string>(const DeviceRecording& recording,
                                                         const std::function<bool()>& keep_going)>;

class CausesWorker {
 public:
  explicit CausesWorker(CausesFunction compute) : compute_(std::move(compute)) {}
  // Cancels the computation in progress and waits for it.
  ~CausesWorker();
  CausesWorker(const CausesWorker&) = delete;
  CausesWorker& operator=(const CausesWorker&) = delete;

  // Returns the response to a request for causes.json. Until the result is ready, its HTTP status
  // is 202.
  // REQUIRES: `document` outlives this object.
  http::Response poll(const Document& document);
  // Like poll, but waits until the response is ready.
  http::Response wait(const Document& document);

 private:
  struct Job {
    bool is_done = false;
    http::Response response{};
  };

  Job& start_locked(const Document& document) ASHLAR_REQUIRES(mutex_);
  void work();
  http::Response compute(const Document& document) const;
  bool keep_going() const;

  const CausesFunction compute_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<const Document*, Job> jobs_ ASHLAR_GUARDED_BY(mutex_);
  std::list<const Document*> queue_ ASHLAR_GUARDED_BY(mutex_);
  std::thread worker_ ASHLAR_GUARDED_BY(mutex_);  // started by the first request
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::view
