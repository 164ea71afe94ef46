// SPDX-License-Identifier: Apache-2.0
//
// Provides 64-byte handles for memory of another process, which implement fabric handles and shared
// allocations. A handle contains the name of the exporter's abstract socket and a secret. An
// importer sends the secret and receives the memory's file descriptor. This exchange needs neither
// ptrace rights nor named files. A handle becomes invalid when the exporter exits or releases the
// memory; memory already imported stays mapped.
//
// The first export creates the socket and its server thread. The server accepts only processes of
// the same user. Thread safe.
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

// The kind of memory that a handle refers to. Exporter and importer must name the same kind.
enum class HandleKind : uint8_t { kExtent = 1, kAllocation = 2 };

using HandleBytes = std::array<uint8_t, 64>;

class Fabric {
 public:
  explicit Fabric(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  ~Fabric();

  // Returns a handle that is valid while the extent exists. Exporting the extent again as the same
  // kind returns the same handle.
  Result<HandleBytes> export_extent(const std::shared_ptr<Extent>& extent, HandleKind kind);
  // Returns an extent over the exporter's memory; in the exporting process, returns the exported
  // extent itself. kInvalidArgument: `handle` is not a handle of that kind, or the exporter belongs
  // to another user. kDeviceFault: the exporter has exited or has released the memory.
  Result<std::shared_ptr<Extent>> import_extent(const HandleBytes& handle, HandleKind kind);

 private:
  using Secret = std::array<uint8_t, 16>;
  struct Export {
    std::weak_ptr<Extent> extent;
    HandleKind kind = HandleKind::kExtent;
  };

  Status start_locked() ASHLAR_REQUIRES(mutex_);
  bool serve_once(int listening_fd, int stop_fd);
  void serve();
  void handle_connection(int connection_fd);
  std::shared_ptr<Extent> find_export(const Secret& secret, HandleKind kind);
  bool is_own(const Secret& name);
  void drop_expired_locked() ASHLAR_REQUIRES(mutex_);

  const std::chrono::milliseconds timeout_;

  Mutex mutex_;
  std::map<Secret, Export> exports_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::pair<const Extent*, HandleKind>, Secret> secrets_ ASHLAR_GUARDED_BY(mutex_);
  // Once `exports_` reaches this size, its expired entries are removed.
  size_t sweep_threshold_ ASHLAR_GUARDED_BY(mutex_) = 64;
  Secret name_ ASHLAR_GUARDED_BY(mutex_){};  // the name of this process's socket
  UniqueFd listening_ ASHLAR_GUARDED_BY(mutex_);
  UniqueFd stop_ ASHLAR_GUARDED_BY(mutex_);  // becomes readable when the server thread must end
  std::thread server_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar::sim
