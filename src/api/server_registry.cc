// SPDX-License-Identifier: Apache-2.0
//
// The registry's mutex and the servers' locks are held during a fork, so that the child inherits
// the registry and the servers in a consistent state. Thread safety analysis is off for the fork
// handlers, because it cannot follow a mutex that one function locks and another unlocks.
#include "api/server_registry.h"

#include <pthread.h>

#include <memory>

namespace ashlar {

ServerRegistry& ServerRegistry::instance() {
  // Never destroyed: a process may fork until it exits.
  static ServerRegistry* const singleton = [] {
    // If the handlers cannot be registered, children keep the listening sockets open.
    static_cast<void>(::pthread_atfork([] { instance().before_fork(); },
                                       [] { instance().after_fork_in_parent(); },
                                       [] { instance().after_fork_in_child(); }));
    return std::make_unique<ServerRegistry>().release();
  }();
  return *singleton;
}

void ServerRegistry::add(http::Server& server) {
  MutexLock lock(mutex_);
  servers_.insert(&server);
}

void ServerRegistry::remove(http::Server& server) {
  MutexLock lock(mutex_);
  servers_.erase(&server);
}

void ServerRegistry::before_fork() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  mutex_.lock();
  for (http::Server* server : servers_) server->before_fork();
}

void ServerRegistry::after_fork_in_parent() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  for (http::Server* server : servers_) server->after_fork_in_parent();
  mutex_.unlock();
}

void ServerRegistry::after_fork_in_child() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  for (http::Server* server : servers_) server->after_fork_in_child();
  mutex_.unlock();
}

}  // namespace ashlar
