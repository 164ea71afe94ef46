// SPDX-License-Identifier: Apache-2.0
//
// Copies extents to the host and back.
#include "engine/paged/host_backups.h"

#include <utility>

#include "base/host_memory.h"
#include "device/relaxed_capture.h"

namespace ashlar::paged {

Result<StreamId> HostBackups::copy_stream() {
  if (!copy_stream_) {
    const Result<StreamId> made = device_.create_stream();
    if (!made.ok()) return made.status();
    copy_stream_ = *made;
  }
  return *copy_stream_;
}

Status HostBackups::allocate(const std::vector<Extent*>& extents) {
  for (Extent* extent : extents) {
    const Result<void*> memory = device_.allocate_host(extent->backup.range.bytes);
    if (!memory.ok()) return memory.status();
    extent->backup.memory = *memory;
  }
  return {};
}

Status HostBackups::copy(const std::vector<Extent*>& extents, Direction direction,
                         StreamId stream) {
  Status copied;
  for (size_t i = 0; copied.ok() && i < extents.size(); ++i) {
    const auto& [memory, range] = extents[i]->backup;
    copied = direction == Direction::kToHost
                 ? device_.copy_to_host(memory, range.begin, range.bytes, stream)
                 : device_.copy_to_device(range.begin, memory, range.bytes, stream);
  }
  // Retries a failed wait once, since the copies should be done before the caller continues. If the
  // retry fails too, `free_discarded` keeps the host memory until the stream is idle.
  Status waited = device_.synchronize_stream(stream);
  if (!waited.ok()) (void)device_.synchronize_stream(stream).ok();
  return copied.ok() ? std::move(waited) : std::move(copied);
}

void HostBackups::reserve(size_t count) {
  reserve_amortized(discarded_, backup_count_ + count);
  backup_count_ += count;
}

void HostBackups::discard(Extent& extent) noexcept {
  if (extent.backup.memory != nullptr) discarded_.push_back(extent.backup.memory);
  extent.backup = {};
}

void HostBackups::free_discarded() noexcept {
  if (discarded_.empty()) return;
  catch_bad_alloc([this]() ASHLAR_REQUIRES(engine_lock) {
    const RelaxedCapture relaxed(device_);  // captures may begin while the lock is released
    if (!relaxed.status().ok() || !can_free_discarded()) return;
    for (size_t left = discarded_.size(); left > 0 && !discarded_.empty(); --left) {
      void* memory = discarded_.back();
      discarded_.pop_back();
      ScopeGuard keep(
          [&]() ASHLAR_REQUIRES(engine_lock) { discarded_.insert(discarded_.begin(), memory); });
      if (!try_free(memory)) continue;
      keep.dismiss();
      --backup_count_;
    }
  });
}

bool HostBackups::can_free_discarded() {
  const Result<bool> is_done = device_.is_idle(*copy_stream_);
  return is_done.ok() && *is_done;
}

bool HostBackups::try_free(void* memory) {
  Status freed;
  {
    EngineUnlock unlocked(mutex_);
    freed = device_.free_host(memory);
  }
  const bool is_freed = freed.ok();
  if (!is_freed) error_.record(std::move(freed));
  return is_freed;
}

void HostBackups::destroy() noexcept {
  if (copy_stream_) {
    catch_bad_alloc([this]() ASHLAR_REQUIRES(engine_lock) {
      return device_.destroy_stream(*copy_stream_).ok();
    });
  }
  for (void* memory : discarded_) {
    catch_bad_alloc([&] { return device_.free_host(memory).ok(); });
  }
}

}  // namespace ashlar::paged
