// SPDX-License-Identifier: Apache-2.0
//
// One thread, behind all others: a page that is being looked at comes first.
#include "view/explanations.h"

#include <sys/resource.h>

#include "base/thread.h"

namespace ashlar::view {
namespace {

constexpr int kNiceness = 10;

}  // namespace

Explanations::~Explanations() {
  std::thread worker;
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
    worker.swap(worker_);
    changed_.notify_all();
  }
  if (worker.joinable()) worker.join();
}

http::Response Explanations::of(const Document& document) {
  MutexLock lock(mutex_);
  return ask_locked(document).answer;
}

http::Response Explanations::wait_for(const Document& document) {
  MutexLock lock(mutex_);
  Made& made = ask_locked(document);
  while (!made.is_done) lock.wait(changed_);
  return made.answer;
}

Explanations::Made& Explanations::ask_locked(const Document& document) {
  const auto [place, is_new] = made_.try_emplace(&document);
  Made& made = place->second;
  if (!is_new) return made;
  made.answer.code = 202;
  made.answer.body = "{\"loading\": \"replaying the run under other settings\"}\n";
  if (!document.has_history()) {
    made.answer =
        http::error_response(404, "the recording has no history of this device to replay");
    made.is_done = true;
    return made;
  }
  if (!worker_.joinable()) {
    Result<std::thread> worker = start_thread([this] { work(); });
    if (!worker.ok()) {
      made.answer = http::error_response(500, worker.status().message());
      made.is_done = true;
      return made;
    }
    worker_ = *std::move(worker);
  }
  to_do_.push_back(&document);
  changed_.notify_all();
  return made;
}

void Explanations::work() {
  // Of this thread only, and of those that it starts; that it is refused harms nobody.
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, kNiceness));
  while (true) {
    const Document* document = nullptr;
    {
      MutexLock lock(mutex_);
      while (to_do_.empty() && !is_ending_) lock.wait(changed_);
      if (is_ending_) return;
      document = to_do_.front();
      to_do_.pop_front();
    }
    http::Response answer = explain(*document);
    MutexLock lock(mutex_);
    made_[document] = {.is_done = true, .answer = std::move(answer)};
    changed_.notify_all();
  }
}

http::Response Explanations::explain(const Document& document) const {
  Result<std::string> body = explain_(document.device_recording(), [this] { return is_wanted(); });
  if (!body.ok()) return http::error_response(404, body.status().message());
  http::Response answer;
  answer.body = *std::move(body);
  return answer;
}

bool Explanations::is_wanted() const {
  MutexLock lock(mutex_);
  return !is_ending_;
}

}  // namespace ashlar::view
