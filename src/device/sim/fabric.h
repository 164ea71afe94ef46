// SPDX-License-Identifier: Apache-2.0
//
// Handles of 64 bytes that stand for memory of another process: the simulated fabric, and the way
// plain allocations are shared. A handle holds the address of the exporter's local socket and a
// secret; whoever shows the secret there is given the memory's file descriptor. Nothing needs
// ptrace rights, nothing lies in any file system, and the handle dies with the exporter, not with
// the memory that importers already have.
//
// The socket and the thread behind it exist from the first export on. Only processes of the same
// user are answered. Thread safe.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/sim/physical_memory.h"

namespace ashlar::sim {

// What a handle stands for; one kind is not accepted for the other.
enum class HandleKind : uint8_t { kExtent = 1, kAllocation = 2 };

using HandleBytes = std::array<uint8_t, 64>;

class Fabric {
 public:
  explicit Fabric(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  ~Fabric();

  // The handle works while the extent exists. Exporting again gives the same handle.
  Result<HandleBytes> export_extent(const std::shared_ptr<Extent>& extent, HandleKind kind);
  // An extent over the exporter's memory; the very extent if the exporter is this process.
  // kInvalidArgument: not a handle of that kind. kDeviceFault: the exporter or its memory is gone.
  Result<std::shared_ptr<Extent>> import_extent(const HandleBytes& handle, HandleKind kind);

 private:
  using Secret = std::array<uint8_t, 16>;
  struct Export {
    std::weak_ptr<Extent> extent;
    HandleKind kind = HandleKind::kExtent;
  };

  Status start_locked() ASHLAR_REQUIRES(mutex_);
  void serve();
  void answer(int connection_fd);
  std::shared_ptr<Extent> find_export(const Secret& secret, HandleKind kind);
  bool is_own(const Secret& name);
  void forget_expired_locked() ASHLAR_REQUIRES(mutex_);

  const std::chrono::milliseconds timeout_;

  Mutex mutex_;
  std::map<Secret, Export> exports_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::pair<const Extent*, HandleKind>, Secret> secrets_ ASHLAR_GUARDED_BY(mutex_);
  size_t sweep_at_ ASHLAR_GUARDED_BY(mutex_) = 64;  // how many exports there may be till then
  Secret name_ ASHLAR_GUARDED_BY(mutex_){};         // of the socket
  UniqueFd listening_ ASHLAR_GUARDED_BY(mutex_);
  UniqueFd stop_ ASHLAR_GUARDED_BY(mutex_);  // readable when the thread must end
  std::thread server_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
