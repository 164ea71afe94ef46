// SPDX-License-Identifier: Apache-2.0
//
// The allocator a program sees: checks arguments, calls the engine, turns failures into exceptions.
#include "ashlar/allocator.h"

#include "api/allocator_parts.h"
#include "api/block_calls.h"
#include "api/live_on_demand.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "config/allocator_options.h"
#include "engine/factory/make_engine.h"

namespace ashlar {

Allocator::Parts::Parts(Device& its_device, const AllocatorOptions& its_options)
    : device(its_device),
      options(its_options),
      engine(unwrap(make_engine(its_device, its_options))) {}

Allocator::Allocator(Device& device) : Allocator(device, options_from_environment()) {}

Allocator::Allocator(Device& device, const AllocatorOptions& options) {
  unwrap(check_allocator_options(options));
  show_if_asked();
  parts_ = std::make_unique<Parts>(device, options);
  parts_->shown.emplace(*this);
}

// Nobody looks at it any more when its parts begin to end.
Allocator::~Allocator() { parts_->shown.reset(); }

Device& Allocator::device() const { return parts_->device; }

Buffer Allocator::allocate(size_t bytes, StreamId stream) {
  if (bytes == 0) return {};
  Engine& engine = *parts_->engine;
  Block* block = allocate_block(engine, bytes, stream, __builtin_return_address(0));
  engine.addresses().remove(block);  // whoever had it by its address does not own it
  return Buffer(engine, block, block->address, bytes);
}

// --- plain addresses
// ------------------------------------------------------------------------------

Status not_an_allocation(DeviceAddress address) {
  return Status::invalid_argument(
      text(address, " is not an allocation of this allocator, or was freed"));
}

Block* Allocator::Parts::block_at(DeviceAddress address) {
  Block* block = engine->addresses().find(address);
  if (block == nullptr || !block->is_allocated()) unwrap(not_an_allocation(address));
  return block;
}

DeviceAddress Allocator::allocate_raw(size_t bytes, StreamId stream) {
  if (bytes == 0) return {};
  Engine& engine = *parts_->engine;
  Block* block = allocate_block(engine, bytes, stream, __builtin_return_address(0));
  enter_address(engine, block);
  return block->address;
}

void Allocator::free_raw(DeviceAddress address) {
  if (address.is_null()) return;
  Engine& engine = *parts_->engine;
  Block* block = engine.addresses().find(address);
  if (block == nullptr) unwrap(not_an_allocation(address));
  unwrap(engine.free(block, freeing_stack(engine, __builtin_return_address(0))));
}

void Allocator::record_stream(DeviceAddress address, StreamId stream) {
  record_stream(address, parts_->device, stream);
}

void Allocator::record_stream(DeviceAddress address, Device& device, StreamId stream) {
  unwrap(parts_->engine->record_stream(parts_->block_at(address), {&device, stream}));
}

// --- limits and looking
// ---------------------------------------------------------------------------

void Allocator::trim() {
  Engine& engine = *parts_->engine;
  Status imports_trimmed = parts_->imports.trim();
  Status trimmed = engine.trim({}, freeing_stack(engine, __builtin_return_address(0)));
  unwrap(std::move(imports_trimmed));
  unwrap(std::move(trimmed));
}

size_t Allocator::trim_to(size_t reserved_bytes, const TrimOptions& options) {
  Engine& engine = *parts_->engine;
  const StackId stack = freeing_stack(engine, __builtin_return_address(0));
  return unwrap(engine.trim_to({reserved_bytes, options.wait, stack}));
}

void Allocator::set_memory_fraction(double fraction) {
  unwrap(parts_->engine->set_memory_fraction(fraction));
}

void Allocator::set_caching(bool caching) { parts_->engine->set_caching(caching); }
bool Allocator::is_caching() const { return parts_->engine->is_caching(); }

void Allocator::set_stream_class(StreamId stream, std::string name) {
  parts_->engine->set_stream_class(stream, std::move(name));
}

std::string Allocator::stream_class(StreamId stream) const {
  return parts_->engine->stream_class(stream);
}

void Allocator::set_default_class_fraction(const std::string& name, double capacity_fraction) {
  if (!(capacity_fraction > 0)) {
    unwrap(Status::invalid_argument(
        text("a share of ", capacity_fraction, " (expected more than 0)")));
  }
  parts_->engine->set_default_class_fraction(name, capacity_fraction);
}

double Allocator::memory_fraction() const { return parts_->engine->memory_fraction(); }
AllocatorStats Allocator::stats() const { return parts_->engine->stats(); }
void Allocator::reset_peak_stats() { parts_->engine->reset_peak_stats(); }
void Allocator::reset_total_stats() { parts_->engine->reset_total_stats(); }
size_t Allocator::largest_cached_bytes() const { return parts_->engine->largest_cached_bytes(); }

std::vector<ExpandableUse> Allocator::expandable_segments() const {
  return parts_->engine->expandable_segments();
}

// --- pools
// ----------------------------------------------------------------------------------------

PoolId Allocator::make_pool(PoolOptions options) {
  const PoolId pool{0, parts_->last_user_pool.fetch_add(1, std::memory_order_relaxed) + 1};
  unwrap(parts_->engine->create_pool(pool, std::move(options)));
  return pool;
}

PoolId Allocator::make_capture_pool() {
  const PoolId pool{parts_->last_capture_pool.fetch_add(1, std::memory_order_relaxed) + 1, 0};
  unwrap(parts_->engine->create_pool(pool, {}));
  return pool;
}

void Allocator::retain_pool(PoolId pool) { unwrap(parts_->engine->retain_pool(pool)); }
void Allocator::release_pool(PoolId pool) { unwrap(parts_->engine->release_pool(pool)); }

// Whoever ran out of memory, or trimmed everything, may have been first: that is no mistake.
void Allocator::trim(PoolId pool) {
  const bool was_made = pool.user <= parts_->last_user_pool.load(std::memory_order_relaxed) &&
                        pool.capture <= parts_->last_capture_pool.load(std::memory_order_relaxed);
  Engine& engine = *parts_->engine;
  Status trimmed = engine.trim(pool, freeing_stack(engine, __builtin_return_address(0)));
  if (trimmed.is(StatusKind::kInvalidArgument) && was_made) return;
  unwrap(std::move(trimmed));
}

int Allocator::pool_use_count(PoolId pool) const {
  return unwrap(parts_->engine->pool_use_count(pool));
}

void Allocator::begin_routing(PoolId pool, RouteFilter filter) {
  if (!filter) unwrap(Status::invalid_argument("there is no filter to route by"));
  unwrap(parts_->engine->begin_routing(pool, std::move(filter)));
}

void Allocator::end_routing(PoolId pool) { unwrap(parts_->engine->end_routing(pool)); }
void Allocator::capture_began() { parts_->engine->capture_began(); }
void Allocator::capture_ended() { unwrap(parts_->engine->capture_ended()); }

std::vector<DeviceAddress> Allocator::live_in_pool(PoolId pool) const {
  return unwrap(parts_->engine->live_in_pool(pool));
}

PoolCheckpoint Allocator::checkpoint(PoolId pool) {
  return unwrap(parts_->engine->checkpoint(pool));
}

RestoredPool Allocator::restore(const PoolCheckpoint& checkpoint) {
  RestoreResult change = unwrap(parts_->engine->restore(checkpoint));
  RestoredPool restored;
  for (Block* block : change.allocated) {
    restored.allocated.push_back(
        Buffer(*parts_->engine, block, block->address, block->requested_bytes));
  }
  restored.freed = std::move(change.freed);
  return restored;
}

// --- pausing
// --------------------------------------------------------------------------------------

void Allocator::pause(std::string_view tag, const PauseOptions& options) {
  unwrap(parts_->engine->pause(tag, options.backup == PauseBackup::kHost));
}

void Allocator::resume(std::string_view tag) { unwrap(parts_->engine->resume(tag)); }

// --- hooks
// ----------------------------------------------------------------------------------------

void Allocator::add_tracker(TraceTracker tracker) {
  parts_->engine->add_tracker(std::move(tracker));
}

void Allocator::add_oom_observer(std::function<void(const OomNotice&)> observer) {
  parts_->engine->add_oom_observer(std::move(observer));
}

void Allocator::add_rejection_observer(std::function<void(const OomNotice&)> observer) {
  parts_->engine->add_rejection_observer(std::move(observer));
}

void Allocator::add_free_memory_callback(std::function<bool()> callback) {
  parts_->engine->add_free_memory_callback(std::move(callback));
}

void Allocator::add_remap_observer(RemapObserver observer) {
  unwrap(parts_->engine->add_remap_observer(std::move(observer)));
}

// --- buffers
// --------------------------------------------------------------------------------------

Buffer::Buffer(Buffer&& other) noexcept
    : engine_(std::exchange(other.engine_, nullptr)),
      block_(std::exchange(other.block_, nullptr)),
      address_(std::exchange(other.address_, {})),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  engine_ = std::exchange(other.engine_, nullptr);
  block_ = std::exchange(other.block_, nullptr);
  address_ = std::exchange(other.address_, {});
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Buffer::record_stream(StreamId stream) {
  if (block_ == nullptr) unwrap(Status::invalid_argument("an empty buffer is used by no stream"));
  record_stream(engine_->device(), stream);
}

void Buffer::record_stream(Device& device, StreamId stream) {
  if (block_ == nullptr) unwrap(Status::invalid_argument("an empty buffer is used by no stream"));
  unwrap(engine_->record_stream(block_, {&device, stream}));
}

void Buffer::reset() noexcept {
  if (block_ == nullptr) return;
  Engine& engine = *engine_;
  Block* block = block_;
  forget();
  free_block(engine, block, __builtin_return_address(0));
}

}  // namespace ashlar
