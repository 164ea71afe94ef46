// SPDX-License-Identifier: Apache-2.0
//
// A thread that runs part of a computation. The destructor joins the thread; `join` also rethrows
// the exception that ended its body.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "ashlar/status.h"
#include "base/thread.h"

namespace ashlar {

class GuardedThread {
 public:
  // Errors are those of start_thread().
  static Result<GuardedThread> start(std::function<void()> body) {
    auto thrown = std::make_unique<std::exception_ptr>();
    Result<std::thread> thread = start_thread([body = std::move(body), out = thrown.get()] {
      try {
        body();
      } catch (...) {
        *out = std::current_exception();
      }
    });
    if (!thread.ok()) return thread.status();
    return GuardedThread(*std::move(thread), std::move(thrown));
  }
  ~GuardedThread() {
    if (thread_.joinable()) thread_.join();
  }
  GuardedThread(GuardedThread&&) noexcept = default;
  GuardedThread& operator=(GuardedThread&&) = delete;
  GuardedThread(const GuardedThread&) = delete;
  GuardedThread& operator=(const GuardedThread&) = delete;

  // Waits for the thread. Rethrows the exception of the body, if any, such as std::bad_alloc.
  void join() {
    if (thread_.joinable()) thread_.join();
    if (*thrown_ != nullptr) std::rethrow_exception(std::exchange(*thrown_, nullptr));
  }

 private:
  GuardedThread(std::thread thread, std::unique_ptr<std::exception_ptr> thrown)
      : thread_(std::move(thread)), thrown_(std::move(thrown)) {}

  std::thread thread_;
  std::unique_ptr<std::exception_ptr> thrown_;  // written by the thread
};

}  // namespace ashlar
