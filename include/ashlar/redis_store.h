// SPDX-License-Identifier: Apache-2.0
//
// A `Store` on a Redis server, through which ranks on several machines rendezvous. It is in a
// separate library, ashlar::redis, which requires hiredis.
//
// Errors: functions throw; their `try_` forms return a Result.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ashlar/export.h"
#include "ashlar/status.h"
#include "ashlar/store.h"

namespace ashlar::symm {

struct RedisOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 6379;
  std::string unix_socket{};  // a path; if set, host and port are ignored
  std::string user{};         // empty: Redis' default user
  std::string password{};     // empty: no authentication
  int database = 0;
};

// Connects to the server. Throws TimeoutError if the deadline passes; DeviceError if the server
// cannot be reached or refuses the connection.
//
// A broken connection is reestablished within the deadline of each call, so the server may be
// restarted while ranks wait; ranks publish lost records again. A retried `add` is applied only
// once, unless it is retried for more than a day or the server lost its data. A retried `erase` may
// report that the key did not exist, although the first attempt erased it.
//
// The deadline applies to each read and write separately, with at least 20 ms for each: a server
// that sends slowly can exceed it. DNS lookups are not covered by the deadline; use an IP address
// to avoid them.
ASHLAR_EXPORT Result<std::shared_ptr<Store>> try_open_redis_store(const RedisOptions& options,
                                                                  Deadline deadline);
inline std::shared_ptr<Store> open_redis_store(const RedisOptions& options, Deadline deadline) {
  return try_open_redis_store(options, deadline).value();
}

}  // namespace ashlar::symm
