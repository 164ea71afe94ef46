// SPDX-License-Identifier: Apache-2.0
//
// Once in each process, also in one that was forked off.
#include "api/live_on_demand.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>

#include "api/live_show.h"
#include "api/unwrap.h"
#include "config/environment.h"

namespace ashlar {
namespace {

class OnDemand {
 public:
  bool is_done() const { return process_.load(std::memory_order_acquire) == ::getpid(); }

  // One of those who come at once does it; the others need not wait for it.
  void show_once(const std::optional<LiveOptions>& wanted) {
    pid_t before = process_.load(std::memory_order_acquire);
    if (before == ::getpid()) return;
    if (!process_.compare_exchange_strong(before, ::getpid(), std::memory_order_acq_rel)) return;
    try {
      // Threads stay with the parent of a fork: its servers cannot be ended here.
      static_cast<void>(show_.release());
      if (wanted) open(*wanted);
    } catch (...) {
      process_.store(0, std::memory_order_release);  // whoever comes next is told the same
      throw;
    }
  }

 private:
  void open(const LiveOptions& wanted) {
    Result<std::unique_ptr<LiveShow>> opened = LiveShow::open(wanted);
    if (opened.status().is(StatusKind::kInvalidArgument)) unwrap(opened.status());
    if (!opened.ok() && wanted.port) opened = LiveShow::open({}, opened.status().message());
    if (opened.ok()) show_ = *std::move(opened);
  }

  // Of the process for which all is done. No lock, which a child might be forked off with while
  // somebody holds it. Acquire and release: show_ is that of whoever set it last.
  std::atomic<pid_t> process_{0};
  std::unique_ptr<LiveShow> show_{};
};

OnDemand& on_demand() {
  // On purpose without an owner: whoever is being answered when the process ends is hung up on.
  static OnDemand* const only = std::make_unique<OnDemand>().release();
  return *only;
}

}  // namespace

void show_if_asked() {
  OnDemand& show = on_demand();
  if (show.is_done()) return;
  const std::optional<LiveOptions> wanted = unwrap(live_options_from(Environment::of_process()));
  show.show_once(wanted);
}

}  // namespace ashlar
