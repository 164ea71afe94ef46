// SPDX-License-Identifier: Apache-2.0
//
// All servers by which this process shows itself, for the moments when it forks: pthread_atfork(3)
// has no handlers that could be taken back. A child keeps none of their doors. Thread safe.
#pragma once

#include <set>

#include "base/mutex.h"
#include "http/server.h"

namespace ashlar {

class ShownServers {
 public:
  static ShownServers& of_process();

  // As long as it lives, the server is told of forks.
  class Entry {
   public:
    // `server` outlives it.
    explicit Entry(http::Server& server) : server_(server) { of_process().enter(server_); }
    ~Entry() { of_process().leave(server_); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    http::Server& server_;
  };

 private:
  void enter(http::Server& server);
  void leave(http::Server& server);
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  Mutex mutex_;
  std::set<http::Server*> servers_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
