// SPDX-License-Identifier: Apache-2.0
//
// A `Store` that one process serves to other processes over TCP. The serving process is a rank, or
// runs only a TcpStoreServer. Needs no other software, such as Redis.
//
// Clients present a token, which the server compares in constant time. Connections are not
// encrypted, so the network between the ranks must be trusted; the default address is the loopback
// interface.
//
// Errors: functions throw; each has a `try_` form that returns a Result.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ashlar/deadline.h"
#include "ashlar/export.h"
#include "ashlar/status.h"
#include "ashlar/store.h"

namespace ashlar::symm {

struct TcpStoreOptions {
  std::string host = "127.0.0.1";  // a name or an address; looking up a name ignores deadlines
  uint16_t port = 0;
  std::string token{};  // the server's token
};

struct TcpStoreServerOptions {
  std::string host = "127.0.0.1";  // the address to listen on; "0.0.0.0" or "::" for all
  uint16_t port = 0;               // 0: the system chooses a port
  // 16 to 256 printable characters without spaces, which every client must present.
  std::string token{};
  // Bound on the total size of keys and values, plus 128 bytes for each key. Writes that would
  // exceed it fail with kOutOfMemory.
  size_t max_bytes = size_t{256} << 20;
  // Bound on the number of connections. A client has one connection per thread that uses the store
  // concurrently.
  size_t max_connections = 4096;
};

// A running server. It has one thread and keeps its data in memory only. In a forked child, the
// copy of the server does nothing. Thread safe.
class ASHLAR_EXPORT TcpStoreServer {
 public:
  TcpStoreServer() = default;
  // Closes all connections.
  virtual ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  virtual uint16_t port() const = 0;
  // Waits until at most `remaining` clients are connected. Returns false if more clients are still
  // connected at the deadline.
  virtual bool wait_for_disconnects(size_t remaining, Deadline deadline) = 0;
};

// Starts a server. Throws InvalidArgument if the token is invalid; DeviceError if the address is in
// use or does not exist.
ASHLAR_EXPORT Result<std::shared_ptr<TcpStoreServer>> try_start_tcp_store_server(
    const TcpStoreServerOptions& options);
inline std::shared_ptr<TcpStoreServer> start_tcp_store_server(
    const TcpStoreServerOptions& options) {
  return try_start_tcp_store_server(options).value();
}

// Connects to a server. If no server can be reached, retries until the deadline, then throws
// TimeoutError. Throws InvalidArgument if the token is malformed, DeviceError if the server rejects
// it, and FormatError if the address is not that of an Ashlar store.
//
// A broken connection is reestablished within the deadline of each call, and an addition that is
// sent again is applied once. An `erase` that is sent again may report that the key did not exist.
ASHLAR_EXPORT Result<std::shared_ptr<Store>> try_open_tcp_store(const TcpStoreOptions& options,
                                                                Deadline deadline);
inline std::shared_ptr<Store> open_tcp_store(const TcpStoreOptions& options, Deadline deadline) {
  return try_open_tcp_store(options, deadline).value();
}

struct HostedStore {
  std::shared_ptr<Store> store{};
  uint16_t port = 0;
};

// Starts a server and returns a store that uses it, for the rank that hosts the store. The
// destructor of the store waits up to `linger` for the other clients to disconnect, because their
// ranks may still be leaving a group.
ASHLAR_EXPORT Result<HostedStore> try_host_tcp_store(
    const TcpStoreServerOptions& options,
    std::chrono::milliseconds linger = std::chrono::seconds(2));
inline HostedStore host_tcp_store(const TcpStoreServerOptions& options,
                                  std::chrono::milliseconds linger = std::chrono::seconds(2)) {
  return try_host_tcp_store(options, linger).value();
}

// Returns a new random token. Throws DeviceError if the system provides no random bytes.
ASHLAR_EXPORT Result<std::string> try_new_store_token();
inline std::string new_store_token() { return try_new_store_token().value(); }

}  // namespace ashlar::symm
