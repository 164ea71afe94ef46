// SPDX-License-Identifier: Apache-2.0
//
// Redis as the place where ranks meet: for ranks on several machines. In a library of its own,
// ashlar::redis, since the core needs no other's.
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
  std::string unix_socket{};  // a path; not empty: host and port do not count
  std::string user{};         // empty: Redis' default user
  std::string password{};     // empty: none is sent
  int database = 0;
};

// Connects by the deadline, or says why not. Later, connections that break are made anew, within
// each call's deadline: a server may be restarted while ranks wait. What it forgets thereby is set
// again by those who need it. Nothing is added twice, unless an addition is tried for more than a
// day or the server forgets; an erasure that was tried twice may say that nothing was there.
//
// The deadline limits each read and write by itself, and leaves 20 ms to each: a server that sends
// a little now and then can take longer. The look-up of a host's name knows no deadline; an address
// needs none.
ASHLAR_EXPORT Result<std::shared_ptr<Store>> open_redis_store(const RedisOptions& options,
                                                              Deadline deadline);

}  // namespace ashlar::symm
