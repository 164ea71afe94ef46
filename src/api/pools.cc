// SPDX-License-Identifier: Apache-2.0
//
// Implements ashlar/pool.h: assigns ids to new pools, calls the engine, and turns errors into
// exceptions.
#include "ashlar/pool.h"

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "api/allocator_impl.h"
#include "api/block_allocation.h"
#include "api/unwrap.h"

namespace ashlar {

// The ids issued for user pools and for capture pools. Relaxed order suffices, because only
// uniqueness matters.
struct AllocatorPools::LastIds {
  struct Issued {
    uint64_t base = 0;              // issued ids are greater; set before the first one
    std::atomic<uint64_t> last{0};  // equal to `base` if none was issued

    uint64_t next() { return last.fetch_add(1, std::memory_order_relaxed) + 1; }
    bool contains(uint64_t id) const {
      return id > base && id <= last.load(std::memory_order_relaxed);
    }
  };
  Issued user{};
  Issued capture{};

  bool contains(PoolId pool) const {
    return pool.capture == 0 ? user.contains(pool.user)
                             : pool.user == 0 && capture.contains(pool.capture);
  }
};

void AllocatorAccess::start_pool_ids_above(AllocatorPools& pools, uint64_t base) {
  for (auto* issued : {&pools.last_ids_->user, &pools.last_ids_->capture}) {
    issued->base = base;
    issued->last.store(base, std::memory_order_relaxed);
  }
}

AllocatorPools::AllocatorPools(Engine& engine, const AllocatorLiveness& liveness)
    : engine_(engine), liveness_(liveness), last_ids_(std::make_unique<LastIds>()) {}

AllocatorPools::~AllocatorPools() = default;

PoolId AllocatorPools::create(PoolOptions options) {
  const PoolId pool{0, last_ids_->user.next()};
  unwrap(usable(engine_).create_pool(pool, std::move(options)));
  return pool;
}

PoolId AllocatorPools::create_for_capture() {
  const PoolId pool{last_ids_->capture.next(), 0};
  unwrap(usable(engine_).create_pool(pool, {}));
  return pool;
}

void AllocatorPools::retain(PoolId pool) { unwrap(usable(engine_).retain_pool(pool)); }
void AllocatorPools::release(PoolId pool) { unwrap(usable(engine_).release_pool(pool)); }
int AllocatorPools::use_count(PoolId pool) const {
  return unwrap(usable(engine_).pool_use_count(pool));
}

void AllocatorPools::set_use_on_oom(PoolId pool, bool use_on_oom) {
  unwrap(usable(engine_).set_pool_use_on_oom(pool, use_on_oom));
}
void AllocatorPools::set_no_split(PoolId pool) { unwrap(usable(engine_).set_pool_no_split(pool)); }

// The pool may have been destroyed already, by Allocator::trim or when an allocation reclaimed
// memory. Only an id that was never issued is an error.
void AllocatorPools::trim(PoolId pool) {
  const bool was_issued = last_ids_->contains(pool);
  const StackId stack = capture_free_stack(engine_, __builtin_return_address(0));
  Status trimmed = usable(engine_).trim(pool, stack);
  if (trimmed.is(StatusKind::kInvalidArgument) && was_issued) return;
  unwrap(std::move(trimmed));
}

void AllocatorPools::begin_routing(PoolId pool, RouteFilter filter) {
  if (!filter) unwrap(Status::invalid_argument("the route filter is empty"));
  unwrap(usable(engine_).begin_routing(pool, std::move(filter)));
}

void AllocatorPools::end_routing(PoolId pool) { unwrap(usable(engine_).end_routing(pool)); }
void AllocatorPools::notify_capture_begin() { usable(engine_).capture_began(); }
void AllocatorPools::notify_capture_end() { unwrap(usable(engine_).capture_ended()); }

std::vector<DeviceAddress> AllocatorPools::live_addresses(PoolId pool) const {
  return unwrap(usable(engine_).live_in_pool(pool));
}

PoolCheckpoint AllocatorPools::checkpoint(PoolId pool) {
  return unwrap(usable(engine_).checkpoint(pool));
}

RestoredPool AllocatorPools::restore(const PoolCheckpoint& checkpoint) {
  RestoredPool restored;
  size_t block_count = 0;
  for (const SegmentRecord& segment : checkpoint.segments) block_count += segment.blocks.size();
  restored.allocated.reserve(block_count);  // done first, because the restore cannot be undone
  RestoreResult change = unwrap(usable(engine_).restore(checkpoint));
  for (Block* block : change.allocated) {
    restored.allocated.push_back(Buffer(engine_, liveness_, block, block->requested_bytes));
  }
  restored.freed = std::move(change.freed);
  return restored;
}

void AllocatorPools::pause(std::string_view tag, const PauseOptions& options) {
  unwrap(usable(engine_).pause(tag, options.backup == PauseBackup::kHost));
}

void AllocatorPools::resume(std::string_view tag) { unwrap(usable(engine_).resume(tag)); }

// Scopes and owners.

Pool::Pool(Allocator& allocator, PoolOptions options)
    : Pool(allocator.pools(), allocator.pools().create(std::move(options))) {}

Pool Pool::for_capture(Allocator& allocator) {
  return {allocator.pools(), allocator.pools().create_for_capture()};
}

Pool::Pool(Pool&& other) noexcept
    : pools_(std::exchange(other.pools_, nullptr)), id_(std::exchange(other.id_, {})) {}

Pool& Pool::operator=(Pool&& other) noexcept {
  if (this == &other) return *this;
  reset();
  pools_ = std::exchange(other.pools_, nullptr);
  id_ = std::exchange(other.id_, {});
  return *this;
}

// Releasing fails in a forked child, or if the program released the reference itself. Ignores that
// error, or the lack of memory to describe it, because nothing is left to release.
void Pool::reset() noexcept {
  if (pools_ == nullptr) return;
  try {
    pools_->release(id_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
  pools_ = nullptr;
  id_ = {};
}

PoolScope::PoolScope(Allocator& allocator, PoolId pool)
    : PoolScope(allocator, pool, [thread = std::this_thread::get_id()](StreamId) {
        return std::this_thread::get_id() == thread;
      }) {}

PoolScope::PoolScope(Allocator& allocator, PoolId pool, RouteFilter filter)
    : pools_(allocator.pools()), pool_(pool) {
  pools_.begin_routing(pool, std::move(filter));
}

// Ends the routing and drops the reference that begin_routing took. Ignores errors, which occur in
// a forked child, or if the program ended the routing itself.
PoolScope::~PoolScope() {
  try {
    pools_.end_routing(pool_);
    pools_.release(pool_);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
}

CaptureScope::CaptureScope(Allocator& allocator) : pools_(allocator.pools()) {
  pools_.notify_capture_begin();
}

// Ignores errors, which a destructor cannot report.
CaptureScope::~CaptureScope() {
  try {
    pools_.notify_capture_end();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace ashlar
