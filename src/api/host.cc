// SPDX-License-Identifier: Apache-2.0
//
// The public allocator of pinned host memory: checks arguments, calls PinnedAllocator, turns errors
// into exceptions.
#include "ashlar/host.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "api/allocator_registry.h"
#include "api/live_autostart.h"
#include "api/unwrap.h"
#include "base/check.h"
#include "base/mutex.h"
#include "base/text.h"
#include "config/allocator_options.h"
#include "host/pinned_allocator.h"

namespace ashlar {
namespace {

std::unique_ptr<PinnedAllocator> make_pinned(Device& device, const AllocatorOptions& options,
                                             Clock& clock) {
  unwrap(check_allocator_options(options));
  return unwrap(PinnedAllocator::create(device, options, clock));
}

}  // namespace

struct HostAllocator::Impl {
  Impl(Device& device_arg, const AllocatorOptions& options, Clock* clock_or_null)
      : device(device_arg),
        pinned(make_pinned(device_arg, options,
                           clock_or_null == nullptr ? own_clock : *clock_or_null)) {}

  // Returns the allocator. Throws InvalidArgument in a forked child of the process that created it.
  PinnedAllocator& usable() const {
    unwrap(pinned->check_not_forked());
    return *pinned;
  }

  Device& device;
  SteadyClock own_clock;  // unused if the caller supplied a clock
  const std::unique_ptr<PinnedAllocator> pinned;
  std::optional<HostAllocatorRegistry::Registration> registration{};  // set after construction

  // The blocks that allocate_raw returned. The mutex is never held together with a mutex of
  // `pinned`.
  Mutex mutex;
  std::unordered_map<const void*, PinnedBlock*> raw_blocks ASHLAR_GUARDED_BY(mutex);
};

HostAllocator::HostAllocator(Device& device, const AllocatorOptions& options)
    : impl_(std::make_unique<Impl>(device, options, nullptr)) {
  start_live_endpoint_if_configured();
  impl_->registration.emplace(*this);
}

HostAllocator::HostAllocator(Device& device, const AllocatorOptions& options, Clock& clock)
    : impl_(std::make_unique<Impl>(device, options, &clock)) {
  start_live_endpoint_if_configured();
  impl_->registration.emplace(*this);
}

// Leaves the registry first, so that no observer visits an allocator that is being destroyed. In a
// forked child, leaks the implementation, as ~Allocator does.
HostAllocator::~HostAllocator() {
  if (!impl_->pinned->in_creating_process()) {
    static_cast<void>(impl_.release());
    return;
  }
  impl_->registration.reset();
}

Device& HostAllocator::device() const { return impl_->device; }

HostBuffer HostAllocator::allocate(size_t bytes, StreamId stream) {
  if (bytes == 0) return {};
  PinnedAllocator& pinned = impl_->usable();
  return {pinned, unwrap(pinned.allocate(bytes, stream)), bytes};
}

// The buffer owns the block until the table has an entry for it, so that nothing leaks if the table
// cannot grow.
void* HostAllocator::allocate_raw(size_t bytes, StreamId stream) {
  HostBuffer buffer = allocate(bytes, stream);
  if (!buffer) return nullptr;
  {
    MutexLock lock(impl_->mutex);
    impl_->raw_blocks.emplace(buffer.data_, buffer.block_);
  }
  buffer.block_ = nullptr;
  return buffer.data_;
}

void HostAllocator::free_raw(void* memory) {
  if (memory == nullptr) return;
  PinnedAllocator& pinned = impl_->usable();
  PinnedBlock* block = nullptr;
  {
    MutexLock lock(impl_->mutex);
    const auto found = impl_->raw_blocks.find(memory);
    if (found != impl_->raw_blocks.end()) {
      block = found->second;
      impl_->raw_blocks.erase(found);
    }
  }
  if (block == nullptr) {
    unwrap(Status::invalid_argument(text(memory, " did not come from allocate_raw, or was freed")));
  }
  unwrap(pinned.free(block));
}

bool HostAllocator::record_stream(const void* memory, StreamId stream) {
  return record_stream(memory, impl_->device, stream);
}

bool HostAllocator::record_stream(const void* memory, Device& device, StreamId stream) {
  return unwrap(impl_->usable().record_stream(memory, {&device, stream}));
}

void HostAllocator::release_capture(CaptureId capture, std::span<const DeviceStream> launched_on) {
  const auto has_no_device = [](const DeviceStream& use) { return use.device == nullptr; };
  if (std::any_of(launched_on.begin(), launched_on.end(), has_no_device)) {
    unwrap(Status::invalid_argument("launched_on has a stream without a device (expected both)"));
  }
  impl_->usable().release_capture(capture, launched_on);
}

void HostAllocator::begin_routing(PoolId pool, RouteFilter filter) {
  unwrap(impl_->usable().begin_routing(pool, std::move(filter)));
}

void HostAllocator::end_routing(PoolId pool) { unwrap(impl_->usable().end_routing(pool)); }
void HostAllocator::release_pool(PoolId pool) { unwrap(impl_->usable().release_pool(pool)); }

int HostAllocator::pool_use_count(PoolId pool) const {
  return unwrap(impl_->usable().pool_use_count(pool));
}

void HostAllocator::trim() { unwrap(impl_->usable().trim()); }
HostStats HostAllocator::stats() const { return impl_->usable().stats(); }
void HostAllocator::reset_peak_stats() { impl_->usable().reset_peak_stats(); }
void HostAllocator::reset_total_stats() { impl_->usable().reset_total_stats(); }

bool HostAllocator::is_inherited() const { return !impl_->pinned->in_creating_process(); }

HostBuffer::HostBuffer(PinnedAllocator& allocator, PinnedBlock* block, size_t bytes)
    : allocator_(&allocator), block_(block), data_(block->memory.begin), bytes_(bytes) {}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : allocator_(std::exchange(other.allocator_, nullptr)),
      block_(std::exchange(other.block_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  allocator_ = std::exchange(other.allocator_, nullptr);
  block_ = std::exchange(other.block_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void HostBuffer::record_stream(StreamId stream) {
  if (block_ == nullptr) unwrap(Status::invalid_argument("the buffer is empty"));
  record_stream(allocator_->device(), stream);
}

void HostBuffer::record_stream(Device& device, StreamId stream) {
  if (block_ == nullptr) unwrap(Status::invalid_argument("the buffer is empty"));
  unwrap(allocator_->check_not_forked());
  static_cast<void>(unwrap(allocator_->record_stream(block_, {&device, stream})));
}

// PinnedAllocator::free returns no device errors, which its next allocate or trim reports; any
// error that it does return is a bug. In a forked child, frees nothing: the memory belongs to the
// parent.
void HostBuffer::reset() noexcept {
  if (block_ != nullptr && allocator_->in_creating_process()) {
    const Status freed = allocator_->free(block_);
    ASHLAR_CHECK(freed.ok());
  }
  allocator_ = nullptr;
  block_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace ashlar
