// SPDX-License-Identifier: Apache-2.0
//
// The registry of the HTTP servers of this process's live endpoints, which must be stopped in the
// child of a fork. Handlers of pthread_atfork(3) cannot be unregistered, so one set of handlers
// serves all servers. Thread safe.
#pragma once

#include <set>

#include "base/mutex.h"
#include "http/server.h"

namespace ashlar {

class ServerRegistry {
 public:
  static ServerRegistry& instance();

  // Registers a server for the lifetime of the object. REQUIRES: the server outlives the object.
  class Registration {
   public:
    explicit Registration(http::Server& server) : server_(server) { instance().add(server_); }
    ~Registration() { instance().remove(server_); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    http::Server& server_;
  };

 private:
  void add(http::Server& server);
  void remove(http::Server& server);
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

  Mutex mutex_;
  std::set<http::Server*> servers_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
