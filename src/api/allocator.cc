// SPDX-License-Identifier: Apache-2.0
//
// The public allocator and its buffers: checks arguments, calls the engine, turns errors into
// exceptions.
#include "ashlar/allocator.h"

#include <atomic>
#include <new>

#include "api/allocator_impl.h"
#include "api/block_allocation.h"
#include "api/live_autostart.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "config/allocator_options.h"
#include "engine/factory/make_engine.h"

namespace ashlar {
namespace {

// The liveness flags of destroyed allocators whose buffers may still exist, linked by
// `next_retained`. They are never freed, because buffers may be freed until the process exits. The
// list keeps them reachable for leak checkers.
constinit std::atomic<AllocatorLiveness*> retained_liveness{nullptr};

// Allocates no memory, because a destructor calls this function.
void retain(std::unique_ptr<AllocatorLiveness> liveness) noexcept {
  AllocatorLiveness* retained = liveness.release();
  retained->next_retained = retained_liveness.load(std::memory_order_relaxed);
  // Relaxed: the list is never read.
  while (!retained_liveness.compare_exchange_weak(retained->next_retained, retained,
                                                  std::memory_order_relaxed)) {
  }
}

// Returns whether any block might still be allocated. Also returns true if host memory is
// exhausted, because the statistics cannot be copied then.
bool may_have_allocations(const Engine& engine) noexcept {
  try {
    return engine.stats().allocation.all.current > 0;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

}  // namespace

Allocator::Impl::Impl(Device& device_arg, const AllocatorOptions& options_arg)
    : device(device_arg),
      options(options_arg),
      engine(unwrap(make_engine(device_arg, options_arg))) {}

Allocator::Impl::~Impl() {
  liveness->is_alive = false;
  if (may_have_allocations(*engine)) retain(std::move(liveness));
}

Allocator::Allocator(Device& device) : Allocator(device, options_from_environment()) {}

Allocator::Allocator(Device& device, const AllocatorOptions& options) {
  unwrap(check_allocator_options(options));
  start_live_endpoint_if_configured();
  impl_ = std::make_unique<Impl>(device, options);
  impl_->registration.emplace(*this);
}

// Leaves the registry first, so that no observer visits an allocator that is being destroyed. In a
// forked child, leaks the implementation: threads of the parent may have held its locks, and the
// parent still uses the memory.
Allocator::~Allocator() {
  if (!impl_->engine->in_creating_process()) {
    static_cast<void>(impl_.release());
    return;
  }
  impl_->registration.reset();
}

Device& Allocator::device() const { return impl_->device; }
AllocatorPools& Allocator::pools() { return impl_->pools; }
const AllocatorPools& Allocator::pools() const { return impl_->pools; }
AllocatorHistory& Allocator::history() { return impl_->history; }
const AllocatorHistory& Allocator::history() const { return impl_->history; }
AllocatorSharing& Allocator::sharing() { return impl_->sharing; }
const AllocatorSharing& Allocator::sharing() const { return impl_->sharing; }
AllocatorStatistics& Allocator::statistics() { return impl_->statistics; }
const AllocatorStatistics& Allocator::statistics() const { return impl_->statistics; }
AllocatorHooks& Allocator::hooks() { return impl_->hooks; }

Buffer Allocator::allocate(size_t bytes, StreamId stream) {
  if (bytes == 0) return {};
  Engine& engine = *impl_->engine;
  Block* block = allocate_block(engine, bytes, stream, __builtin_return_address(0));
  // An earlier allocate_raw may have left an entry for this block. A buffer's block must not be
  // freed by address, so the entry is removed.
  engine.addresses().remove(block);
  return Buffer(engine, *impl_->liveness, block, bytes);
}

// Allocations by address.

Status not_an_allocation_error(DeviceAddress address) {
  return Status::invalid_argument(
      text(address, " is not an allocation of this allocator, or was freed"));
}

Block* block_at(Engine& engine, DeviceAddress address) {
  Block* block = usable(engine).addresses().find(address);
  if (block == nullptr || !block->is_allocated()) unwrap(not_an_allocation_error(address));
  return block;
}

DeviceAddress Allocator::allocate_raw(size_t bytes, StreamId stream) {
  if (bytes == 0) return {};
  Engine& engine = *impl_->engine;
  Block* block = allocate_block(engine, bytes, stream, __builtin_return_address(0));
  register_address(engine, block);
  return block->address;
}

void Allocator::free_raw(DeviceAddress address) {
  if (address.is_null()) return;
  Engine& engine = *impl_->engine;
  const StackId stack = capture_free_stack(engine, __builtin_return_address(0));
  Block* block = engine.addresses().find(address);
  if (block == nullptr) unwrap(not_an_allocation_error(address));
  unwrap(engine.free(block, stack));
}

void Allocator::record_stream(DeviceAddress address, StreamId stream) {
  record_stream(address, impl_->device, stream);
}

void Allocator::record_stream(DeviceAddress address, Device& device, StreamId stream) {
  Engine& engine = *impl_->engine;
  unwrap(engine.record_stream(block_at(engine, address), {&device, stream}));
}

// Limits and statistics.

void Allocator::trim() {
  Engine& engine = usable(*impl_->engine);
  Status imports_trimmed = impl_->sharing.trim_imports();
  Status trimmed = engine.trim({}, capture_free_stack(engine, __builtin_return_address(0)));
  unwrap(std::move(imports_trimmed));
  unwrap(std::move(trimmed));
}

size_t Allocator::trim_to(size_t reserved_bytes, const TrimOptions& options) {
  Engine& engine = usable(*impl_->engine);
  const StackId stack = capture_free_stack(engine, __builtin_return_address(0));
  return unwrap(engine.trim_to({reserved_bytes, options.wait, stack}));
}

void Allocator::set_memory_fraction(double fraction) {
  unwrap(usable(*impl_->engine).set_memory_fraction(fraction));
}

double Allocator::memory_fraction() const { return usable(*impl_->engine).memory_fraction(); }
void Allocator::set_caching(bool caching) { usable(*impl_->engine).set_caching(caching); }
bool Allocator::is_caching() const { return usable(*impl_->engine).is_caching(); }

void Allocator::set_stream_class(StreamId stream, std::string name) {
  usable(*impl_->engine).set_stream_class(stream, std::move(name));
}

std::string Allocator::stream_class(StreamId stream) const {
  return usable(*impl_->engine).stream_class(stream);
}

void Allocator::set_default_class_fraction(const std::string& name, double capacity_fraction) {
  if (!(capacity_fraction > 0)) {
    unwrap(Status::invalid_argument(
        text("capacity fraction ", capacity_fraction, " (expected more than 0)")));
  }
  usable(*impl_->engine).set_default_class_fraction(name, capacity_fraction);
}

AllocatorStats Allocator::stats() const { return usable(*impl_->engine).stats(); }

void AllocatorStatistics::reset_peaks() { usable(engine_).reset_peak_stats(); }
void AllocatorStatistics::reset_totals() { usable(engine_).reset_total_stats(); }
size_t AllocatorStatistics::largest_cached_bytes() const {
  return usable(engine_).largest_cached_bytes();
}

std::vector<ExpandableSegmentStats> AllocatorStatistics::expandable_segments() const {
  return usable(engine_).expandable_segments();
}

// Hooks.

void AllocatorHooks::add_tracker(TraceTracker tracker) {
  usable(engine_).add_tracker(std::move(tracker));
}

void AllocatorHooks::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  usable(engine_).add_oom_observer(std::move(observer));
}

void AllocatorHooks::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  usable(engine_).add_rejection_observer(std::move(observer));
}

void AllocatorHooks::add_free_memory_callback(std::function<bool()> callback) {
  usable(engine_).add_free_memory_callback(std::move(callback));
}

void AllocatorHooks::add_remap_observer(RemapObserver observer) {
  unwrap(usable(engine_).add_remap_observer(std::move(observer)));
}

// Buffers.

Buffer::Buffer(Engine& engine, const AllocatorLiveness& liveness, Block* block, size_t bytes)
    : engine_(&engine),
      liveness_(&liveness),
      block_(block),
      address_(block->address),
      bytes_(bytes) {}

Buffer::Buffer(Buffer&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      liveness_(std::exchange(other.liveness_, nullptr)),
      block_(std::exchange(other.block_, nullptr)),
      address_(std::exchange(other.address_, {})),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  engine_ = std::exchange(other.engine_, nullptr);
  liveness_ = std::exchange(other.liveness_, nullptr);
  block_ = std::exchange(other.block_, nullptr);
  address_ = std::exchange(other.address_, {});
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Buffer::check_usable() const {
  if (block_ == nullptr) unwrap(Status::invalid_argument("the buffer is empty"));
  if (!liveness_->is_alive) {
    unwrap(Status::invalid_argument("the buffer's allocator was destroyed"));
  }
  usable(*engine_);
}

void Buffer::record_stream(StreamId stream) {
  check_usable();
  record_stream(engine_->device(), stream);
}

void Buffer::record_stream(Device& device, StreamId stream) {
  check_usable();
  unwrap(engine_->record_stream(block_, {&device, stream}));
}

void Buffer::reset() noexcept {
  if (block_ == nullptr) return;
  Engine& engine = *engine_;
  Block* block = block_;
  const bool is_alive = liveness_->is_alive;
  release();
  if (is_alive) [[likely]]
    free_block(engine, block, __builtin_return_address(0));
}

}  // namespace ashlar
