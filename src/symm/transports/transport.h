// SPDX-License-Identifier: Apache-2.0
//
// The interface to ranks on other machines: put, get and atomics on registered memory. The core
// library has no implementation. ashlar::ucx (ashlar/ucx_transport.h) provides one, which the user
// passes to a group.
//
// Ordering and completion:
//   put, post   on return, the caller's memory may be reused; remote completion is not implied
//   get, fetch  on return, the result is available
//   fence       orders all earlier puts and posts of this endpoint before all later ones
//   quiet       on return, all earlier puts and posts of this endpoint are visible remotely, or the
//               status says that some were rejected
// Without a fence between them, two operations may become visible in any order.
//
// Thread safe. Every wait ends with kTimeout at its deadline, or earlier with the group's failure.
// A broken connection is reported to the group's `Failure` as kPeerLost, which ends all waits of
// the group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ashlar/deadline.h"
#include "ashlar/export.h"
#include "ashlar/status.h"
#include "ashlar/symmetric_types.h"
#include "symm/core/failure.h"

namespace ashlar::symm {

// Registered local memory. Peers access it by its key until this object is destroyed.
class ASHLAR_EXPORT Region {
 public:
  Region() = default;
  virtual ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  virtual const std::string& key() const = 0;
};

// A region of a remote process. Keeps its connection open. Offsets are relative to the beginning of
// the region. Accesses outside the region return kInvalidArgument without sending anything.
class ASHLAR_EXPORT RemoteRegion {
 public:
  RemoteRegion() = default;
  virtual ~RemoteRegion();
  RemoteRegion(const RemoteRegion&) = delete;
  RemoteRegion& operator=(const RemoteRegion&) = delete;

  virtual size_t bytes() const = 0;
  // After kTimeout the caller's memory may be reused; part of a put may still arrive later.
  virtual Status put(uint64_t offset, std::span<const std::byte> from, Deadline deadline) = 0;
  virtual Status get(uint64_t offset, std::span<std::byte> into, Deadline deadline) = 0;
  // Applies an atomic operation without returning the previous value. Returns kInvalidArgument for
  // swap and compare-and-swap, whose callers need that value. After kTimeout the operation does not
  // take place.
  virtual Status post(const AtomicOp& op, Deadline deadline) = 0;
  // Applies an atomic operation and returns the previous value. After kTimeout the operation may or
  // may not take place.
  virtual Result<uint64_t> fetch(const AtomicOp& op, Deadline deadline) = 0;
};

// A connection to one rank on behalf of one group.
class ASHLAR_EXPORT Endpoint {
 public:
  Endpoint() = default;
  virtual ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // Returns kFormat if `key` is malformed or belongs to another transport.
  virtual Result<std::unique_ptr<RemoteRegion>> open(std::string_view key) = 0;
  virtual Status fence(Deadline deadline) = 0;
  virtual Status quiet(Deadline deadline) = 0;
  // Announces a normal shutdown: from now on, the end of the connection is not a failure. If one
  // side closes the connection before the other side has called this, the group fails for the other
  // side.
  virtual void announce_close() = 0;
};

struct RemotePeer {
  int rank = 0;
  std::string group{};                 // for error messages
  std::shared_ptr<Failure> failure{};  // also owned by the group. REQUIRES: not null
};

class ASHLAR_EXPORT Transport {
 public:
  // Maximum sizes of serialized addresses and keys, which ranks exchange in store records.
  static constexpr size_t kMaxAddressBytes = 4096;
  static constexpr size_t kMaxKeyBytes = 4096;

  Transport() = default;
  virtual ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Returns the address that peers pass to `connect`. Until this or `connect` is called for the
  // first time, the transport opens no sockets: groups on one machine call neither.
  virtual Result<std::string> address() = 0;
  // Connects eagerly, so that an unreachable rank is reported here: kPeerLost or kTimeout, or
  // kDeviceFault if no network path to the address exists. Returns kFormat if `address` is
  // malformed or belongs to another transport, and kInvalidArgument after `end`.
  virtual Result<std::unique_ptr<Endpoint>> connect(std::string_view address,
                                                    const RemotePeer& peer, Deadline deadline) = 0;
  // Registers memory for remote access. REQUIRES: the memory outlives the region.
  virtual Result<std::unique_ptr<Region>> share(std::span<std::byte> memory) = 0;
  // Calls `quiet` on all endpoints. Returns the first error.
  virtual Status quiet(Deadline deadline) = 0;
  // Processes incoming operations on the calling thread. Threads that wait for local memory to
  // change call this for lower latency; the transport's own thread makes progress in any case.
  virtual void progress() = 0;
  // Closes all endpoints. Later calls on this transport and on its endpoints and regions return
  // kInvalidArgument. Idempotent; the destructor calls it too.
  virtual void end() = 0;
};

}  // namespace ashlar::symm
