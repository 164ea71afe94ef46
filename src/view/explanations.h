// SPDX-License-Identifier: Apache-2.0
//
// Answers that take long, made in the background, one after the other, when they are first asked
// for. Thread safe.
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

// Explains the gap between reserved and requested, as JSON. `is_wanted` may be asked by any thread;
// false: it had better end.
using Explain = std::function<Result<std::string>(const DeviceRecording& recording,
                                                  const std::function<bool()>& is_wanted)>;

class Explanations {
 public:
  explicit Explanations(Explain explain) : explain_(std::move(explain)) {}
  // Waits for the one that is being made, which is told that nobody wants it.
  ~Explanations();
  Explanations(const Explanations&) = delete;
  Explanations& operator=(const Explanations&) = delete;

  // 202 until it is there. `document` outlives it.
  http::Response of(const Document& document);
  // The same, but waits.
  http::Response wait_for(const Document& document);

 private:
  struct Made {
    bool is_done = false;
    http::Response answer{};
  };

  Made& ask_locked(const Document& document) ASHLAR_REQUIRES(mutex_);
  void work();
  http::Response explain(const Document& document) const;
  bool is_wanted() const;

  const Explain explain_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<const Document*, Made> made_ ASHLAR_GUARDED_BY(mutex_);
  std::list<const Document*> to_do_ ASHLAR_GUARDED_BY(mutex_);
  std::thread worker_ ASHLAR_GUARDED_BY(mutex_);  // from the first question on
  bool is_ending_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::view
