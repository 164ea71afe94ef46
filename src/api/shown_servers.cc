// SPDX-License-Identifier: Apache-2.0
//
// All locks are held while the process forks, so that the child finds everything whole. The
// compiler's analysis knows of no lock that is let go of in another process.
#include "api/shown_servers.h"

#include <pthread.h>

#include <memory>

namespace ashlar {

ShownServers& ShownServers::of_process() {
  // On purpose without an owner: a process may fork until its very end.
  static ShownServers* const only = [] {
    // Without memory for the handlers, children keep doors open; nothing worse.
    static_cast<void>(::pthread_atfork([] { of_process().before_fork(); },
                                       [] { of_process().after_fork_in_parent(); },
                                       [] { of_process().after_fork_in_child(); }));
    return std::make_unique<ShownServers>().release();
  }();
  return *only;
}

void ShownServers::enter(http::Server& server) {
  MutexLock lock(mutex_);
  servers_.insert(&server);
}

void ShownServers::leave(http::Server& server) {
  MutexLock lock(mutex_);
  servers_.erase(&server);
}

void ShownServers::before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  mutex_.lock();
  for (http::Server* each : servers_) each->before_fork();
}

void ShownServers::after_fork_in_parent() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  for (http::Server* each : servers_) each->after_fork_in_parent();
  mutex_.unlock();
}

void ShownServers::after_fork_in_child() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  for (http::Server* each : servers_) each->after_fork_in_child();
  mutex_.unlock();
}

}  // namespace ashlar
