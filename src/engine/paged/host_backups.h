// SPDX-License-Identifier: Apache-2.0
//
// Copies the contents of paused pools to pinned host memory and back. Owns the stream for the
// copies, and the host memory that is no longer needed but not freed yet.
//
// All functions need the engine's lock except where stated otherwise.
#pragma once

#include <optional>
#include <vector>

#include "ashlar/device.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/pool/view.h"

namespace ashlar::paged {

class HostBackups {
 public:
  enum class Direction { kToHost, kToDevice };

  HostBackups(Device& device, EngineMutex& mutex, DeferredError& error)
      : device_(device), mutex_(mutex), error_(error) {}

  // Returns the stream for copies, which is separate so that no other work delays them.
  Result<StreamId> copy_stream() ASHLAR_REQUIRES(engine_lock);
  // Prepares for `count` more backups, so that `discard` cannot fail.
  void reserve(size_t count) ASHLAR_REQUIRES(engine_lock);
  // Allocates host memory for each extent's `backup.range`. The extents must not change during the
  // call.
  Status allocate(const std::vector<Extent*>& extents) ASHLAR_EXCLUDES(engine_lock);
  // Queues the copies, up to the first that fails, then waits for them.
  Status copy(const std::vector<Extent*>& extents, Direction direction, StreamId stream)
      ASHLAR_EXCLUDES(engine_lock);
  // Marks the extent's backup as no longer needed. `free_discarded` frees its memory.
  void discard(Extent& extent) noexcept ASHLAR_REQUIRES(engine_lock);
  // Frees discarded memory, unless a copy may still use it. Memory that the device fails to free is
  // kept for the next call. May release the lock.
  void free_discarded() noexcept ASHLAR_REQUIRES(engine_lock);

  // Destroys the stream and frees discarded memory, for the engine's destructor. Ignores errors.
  void destroy() noexcept ASHLAR_REQUIRES(engine_lock);

 private:
  bool can_free_discarded() ASHLAR_REQUIRES(engine_lock);
  bool try_free(void* memory) ASHLAR_REQUIRES(engine_lock);

  Device& device_;
  EngineMutex& mutex_;
  DeferredError& error_;
  std::optional<StreamId> copy_stream_ ASHLAR_GUARDED_BY(engine_lock);
  // Has capacity for `backup_count_` elements.
  std::vector<void*> discarded_ ASHLAR_GUARDED_BY(engine_lock);
  // An upper bound on the number of backups, including discarded backups and backups that are being
  // freed.
  size_t backup_count_ ASHLAR_GUARDED_BY(engine_lock) = 0;
};

}  // namespace ashlar::paged
