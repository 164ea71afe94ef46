// Once in each process, also in one that was forked off.
#include "api/live_on_demand.h"

#include <unistd.h>

#include <memory>
#include <optional>

#include "api/live_show.h"
#include "api/unwrap.h"
#include "base/mutex.h"
#include "config/environment.h"

namespace ashlar {
namespace {

class OnDemand {
 public:
  void show_once(const LiveOptions& wanted) {
    MutexLock lock(mutex_);
    if (pid_ == ::getpid()) return;
    // Threads stay with the parent of a fork: its servers cannot be ended here.
    static_cast<void>(show_.release());
    Result<std::unique_ptr<LiveShow>> opened = LiveShow::open(wanted);
    if (opened.status().is(StatusKind::kUsage)) unwrap(opened.status());
    if (!opened.ok() && wanted.port) opened = LiveShow::open({}, opened.status().message());
    if (opened.ok()) show_ = *std::move(opened);
    pid_ = ::getpid();
  }

  bool is_done() {
    MutexLock lock(mutex_);
    return pid_ == ::getpid();
  }
  void note_done() {
    MutexLock lock(mutex_);
    pid_ = ::getpid();
  }

 private:
  Mutex mutex_;
  pid_t pid_ ASHLAR_GUARDED_BY(mutex_) = 0;  // of the process for which all is done
  std::unique_ptr<LiveShow> show_ ASHLAR_GUARDED_BY(mutex_);
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
  if (wanted) {
    show.show_once(*wanted);
  } else {
    show.note_done();
  }
}

}  // namespace ashlar
