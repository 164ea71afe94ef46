// SPDX-License-Identifier: Apache-2.0
//
// How ranks on other machines are reached: put, get and atomics into memory they registered. The
// core has none; ashlar::ucx (ashlar/ucx_transport.h) is one, which users hand to a group.
//
// What is promised about order and completion:
//   put, post   have returned: the caller's memory may be used again; nothing is said about the
//               other side
//   get, fetch  have returned: the answer is here
//   fence       what was put and posted before at this endpoint is seen before what comes after
//   quiet       what was put and posted before at this endpoint is seen by everyone; or says that
//               some of it was refused
// Two calls without a fence between them may be seen in any order.
//
// Thread safe. Everything that waits ends by its deadline with kTimeout, and earlier when the group
// has failed, with that failure. A peer whose connection breaks is reported to the group's Failure
// as kPeerLost, so that everyone who waits for the group, here or elsewhere, is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ashlar/atomic_op.h"
#include "ashlar/deadline.h"
#include "ashlar/export.h"
#include "ashlar/status.h"
#include "symm/core/failure.h"

namespace ashlar::symm {

// Memory of this process that others may reach by its key, until this is gone.
class ASHLAR_EXPORT Region {
 public:
  Region() = default;
  virtual ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  virtual const std::string& key() const = 0;
};

// Another process' region, reached through an endpoint, which it keeps. Offsets count from its
// beginning; what is not within it is kInvalidArgument, and nothing is sent.
class ASHLAR_EXPORT RemoteRegion {
 public:
  RemoteRegion() = default;
  virtual ~RemoteRegion();
  RemoteRegion(const RemoteRegion&) = delete;
  RemoteRegion& operator=(const RemoteRegion&) = delete;

  virtual size_t bytes() const = 0;
  // After kTimeout the caller's memory is its own in any case; of a put, a part may arrive later.
  virtual Status put(uint64_t offset, std::span<const std::byte> from, Deadline deadline) = 0;
  virtual Status get(uint64_t offset, std::span<std::byte> into, Deadline deadline) = 0;
  // kInvalidArgument: a compare-and-swap, or a swap, whose answer nobody wants. After kTimeout it
  // does not happen.
  virtual Status post(const AtomicOp& call, Deadline deadline) = 0;
  // What was there before. After kTimeout it may have happened, and may yet.
  virtual Result<uint64_t> fetch(const AtomicOp& call, Deadline deadline) = 0;
};

// A connection to one rank, for one group.
class ASHLAR_EXPORT Endpoint {
 public:
  Endpoint() = default;
  virtual ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // kFormat: these bytes are no key, or one of another transport.
  virtual Result<std::unique_ptr<RemoteRegion>> open(std::string_view key) = 0;
  virtual Status fence(Deadline deadline) = 0;
  virtual Status quiet(Deadline deadline) = 0;
  // From now on the other side may go, and that is no failure. Whoever closes without both sides
  // having said so fails the group for the other.
  virtual void farewell() = 0;
};

struct RemotePeer {
  int rank = 0;
  std::string group{};                 // for sentences
  std::shared_ptr<Failure> failure{};  // the group's; also owned by it. REQUIRES: not null
};

class ASHLAR_EXPORT Transport {
 public:
  // What fits a record in the store.
  static constexpr size_t kMaxAddressBytes = 4096;
  static constexpr size_t kMaxKeyBytes = 4096;

  Transport() = default;
  virtual ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // For others to connect to.
  virtual const std::string& address() const = 0;
  // Connects at once, so that one who cannot be reached is known here, with its rank: kPeerLost or
  // kTimeout, or kDeviceFault where there is no way to such an address at all. kFormat: these bytes
  // are no address, or one of another transport. kInvalidArgument: it has ended.
  virtual Result<std::unique_ptr<Endpoint>> connect(std::string_view address,
                                                    const RemotePeer& peer, Deadline deadline) = 0;
  // REQUIRES: the memory outlives the region.
  virtual Result<std::unique_ptr<Region>> share(std::span<std::byte> memory) = 0;
  // All endpoints'; the first that is not quiet says why.
  virtual Status quiet(Deadline deadline) = 0;
  // Does what has arrived, for those who wait for it in their own memory: sooner than the
  // transport's own thread, which does it in any case.
  virtual void progress() = 0;
  // Closes everything; all that is called later, on whatever came from here, is kInvalidArgument.
  // Any number of times; destruction does it, too.
  virtual void end() = 0;
};

}  // namespace ashlar::symm
