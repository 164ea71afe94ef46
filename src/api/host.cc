// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory as a program sees it: checks arguments, calls PinnedAllocator, turns failures
// into exceptions.
#include "ashlar/host.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "api/live_on_demand.h"
#include "api/shown_allocators.h"
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

// The clock of its own is idle where one was given.
struct HostAllocator::Parts {
  Parts(Device& its_device, const AllocatorOptions& options, Clock* given)
      : device(its_device),
        pinned(make_pinned(its_device, options, given == nullptr ? own_clock : *given)) {}

  Device& device;
  SteadyClock own_clock;
  const std::unique_ptr<PinnedAllocator> pinned;
  std::optional<ShownHostAllocators::Entry> shown{};  // empty before it is made, and while it ends

  // Blocks handed out as plain pointers. Never locked together with the allocator.
  Mutex mutex;
  std::unordered_map<const void*, PinnedBlock*> raw ASHLAR_GUARDED_BY(mutex);
};

HostAllocator::HostAllocator(Device& device, const AllocatorOptions& options)
    : parts_(std::make_unique<Parts>(device, options, nullptr)) {
  show_if_asked();
  parts_->shown.emplace(*this);
}

HostAllocator::HostAllocator(Device& device, const AllocatorOptions& options, Clock& clock)
    : parts_(std::make_unique<Parts>(device, options, &clock)) {
  show_if_asked();
  parts_->shown.emplace(*this);
}

// Nobody looks at it any more when its parts begin to end.
HostAllocator::~HostAllocator() { parts_->shown.reset(); }

Device& HostAllocator::device() const { return parts_->device; }

HostBuffer HostAllocator::allocate(size_t bytes, StreamId stream) {
  if (bytes == 0) return {};
  return {*parts_->pinned, unwrap(parts_->pinned->allocate(bytes, stream)), bytes};
}

// --- plain pointers
// -------------------------------------------------------------------------------

// A buffer owns the block until the table does: should the table not grow, nothing is lost.
void* HostAllocator::allocate_raw(size_t bytes, StreamId stream) {
  HostBuffer buffer = allocate(bytes, stream);
  if (!buffer) return nullptr;
  {
    MutexLock lock(parts_->mutex);
    parts_->raw.emplace(buffer.data_, buffer.block_);
  }
  buffer.block_ = nullptr;
  return buffer.data_;
}

void HostAllocator::free_raw(void* memory) {
  if (memory == nullptr) return;
  PinnedBlock* block = nullptr;
  {
    MutexLock lock(parts_->mutex);
    const auto found = parts_->raw.find(memory);
    if (found != parts_->raw.end()) {
      block = found->second;
      parts_->raw.erase(found);
    }
  }
  if (block == nullptr) {
    unwrap(Status::invalid_argument(text(memory, " did not come from allocate_raw, or was freed")));
  }
  unwrap(parts_->pinned->free(block));
}

// --- streams and captures
// -------------------------------------------------------------------------

bool HostAllocator::record_stream(const void* memory, StreamId stream) {
  return record_stream(memory, parts_->device, stream);
}

bool HostAllocator::record_stream(const void* memory, Device& device, StreamId stream) {
  return unwrap(parts_->pinned->record_stream(memory, {&device, stream}));
}

void HostAllocator::release_capture(CaptureId capture, std::span<const StreamUse> launched_on) {
  const auto has_no_device = [](const StreamUse& use) { return use.device == nullptr; };
  if (std::any_of(launched_on.begin(), launched_on.end(), has_no_device)) {
    unwrap(Status::invalid_argument(
        "a graph was launched on a stream without a device (expected both)"));
  }
  parts_->pinned->release_capture(capture, launched_on);
}

// --- pools
// ----------------------------------------------------------------------------------------

void HostAllocator::begin_routing(PoolId pool, RouteFilter filter) {
  unwrap(parts_->pinned->begin_routing(pool, std::move(filter)));
}

void HostAllocator::end_routing(PoolId pool) { unwrap(parts_->pinned->end_routing(pool)); }
void HostAllocator::release_pool(PoolId pool) { unwrap(parts_->pinned->release_pool(pool)); }

int HostAllocator::pool_use_count(PoolId pool) const {
  return unwrap(parts_->pinned->pool_use_count(pool));
}

// --- giving back and looking
// ----------------------------------------------------------------------

void HostAllocator::trim() { unwrap(parts_->pinned->trim()); }
HostStats HostAllocator::stats() const { return parts_->pinned->stats(); }
void HostAllocator::reset_peak_stats() { parts_->pinned->reset_peak_stats(); }
void HostAllocator::reset_total_stats() { parts_->pinned->reset_total_stats(); }

// --- buffers
// --------------------------------------------------------------------------------------

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
  if (block_ == nullptr) unwrap(Status::invalid_argument("an empty buffer is used by no stream"));
  record_stream(allocator_->device(), stream);
}

void HostBuffer::record_stream(Device& device, StreamId stream) {
  if (block_ == nullptr) unwrap(Status::invalid_argument("an empty buffer is used by no stream"));
  static_cast<void>(unwrap(allocator_->record_stream(block_, {&device, stream})));
}

// The device's failures are kept for the next call; any other would be a mistake of ours.
void HostBuffer::reset() noexcept {
  if (block_ != nullptr) {
    const Status freed = allocator_->free(block_);
    ASHLAR_CHECK(freed.ok());
  }
  allocator_ = nullptr;
  block_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace ashlar
