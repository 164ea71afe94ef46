// SPDX-License-Identifier: Apache-2.0
//
// Starts the endpoint once per process. A forked child starts its own endpoint.
#include "api/live_autostart.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>

#include "api/live_endpoint.h"
#include "config/environment.h"

namespace ashlar {
namespace {

class Autostart {
 public:
  bool is_done() const { return done_pid_.load(std::memory_order_acquire) == ::getpid(); }

  // The first caller starts the endpoint. Concurrent callers do not wait for the start.
  void start_once() {
    pid_t before = done_pid_.load(std::memory_order_acquire);
    if (before == ::getpid()) return;
    if (!done_pid_.compare_exchange_strong(before, ::getpid(), std::memory_order_acq_rel)) return;
    try {
      // In a forked child, the parent's endpoint is leaked: its threads do not exist here, so they
      // cannot be joined.
      static_cast<void>(endpoint_.release());
      open(live_options_from(Environment::of_process()));
    } catch (...) {
      done_pid_.store(0, std::memory_order_release);  // the next caller tries again
      throw;
    }
  }

 private:
  void open(const Result<std::optional<LiveOptions>>& options) {
    if (!options.ok()) return warn(options.status());
    if (!*options) return;
    Result<std::unique_ptr<LiveEndpoint>> opened = LiveEndpoint::open(**options);
    if (opened.status().is(StatusKind::kInvalidArgument)) return warn(opened.status());
    if (!opened.ok() && (*options)->port) {
      opened = LiveEndpoint::open({}, opened.status().message());
    }
    if (opened.ok()) endpoint_ = *std::move(opened);
  }
  static void warn(const Status& failure) {
    std::fprintf(stderr, "ashlar: live monitoring is off: %s\n", failure.message().c_str());
  }

  // The id of the last process that began to start its endpoint, even if none is configured; 0 if
  // no process did, or if the start threw an exception. An atomic replaces a mutex, which a forked
  // child could inherit locked. Acquire and release order make the writes of a failed attempt
  // visible to the retry.
  std::atomic<pid_t> done_pid_{0};
  std::unique_ptr<LiveEndpoint> endpoint_{};
};

Autostart& autostart() {
  // Never destroyed: connections are cut when the process exits.
  static Autostart* const singleton = std::make_unique<Autostart>().release();
  return *singleton;
}

}  // namespace

void start_live_endpoint_if_configured() {
  if (autostart().is_done()) return;
  autostart().start_once();
}

}  // namespace ashlar
