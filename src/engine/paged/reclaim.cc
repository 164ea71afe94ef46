// SPDX-License-Identifier: Apache-2.0
//
// What an allocation tries when there is no more memory, and the report when nothing helped.
#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "engine/device_processes.h"
#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {

Result<Block*> PagedEngine::grow(Search& search) {
  if (search.pool->is_paused) return paused(*search.pool);
  if (!search.pool->is_plain) {
    // Refused before it is planned: the extents of an absurd size would fill the host's memory.
    if (search.bytes > capacity_bytes_) {
      search.device_bytes = search.bytes;
      return Status::out_of_memory("more than the device has");
    }
    Result<Block*> stitched = stitch(search);
    const bool is_full = !stitched.ok() && stitched.status().is_out_of_memory();
    if (!is_full || !search.is_ample) return stitched;
    search.must_save = true;
    return stitch(search);
  }
  if (Block* block = take_cached(search, 1e9)) return block;
  return grow_plain(search, sizes_.segment_bytes(search.bytes));
}

// --- the ladder
// -----------------------------------------------------------------------------------

Result<Block*> PagedEngine::reclaim_and_retry(Search& search, Status why) {
  if (search.rejected) return why;
  if (Block* borrowed = borrow_from_overflow_pools(search)) return borrowed;
  if (waiting_.is_capturing({&device_, search.request.stream})) return why;
  if (Status waited = wait_for_waiting({}); !waited.ok()) return waited;
  Result<Block*> grown = grow(search);
  if (grown.ok() || !grown.status().is_out_of_memory()) return grown;

  if (search.lacks_room) {
    if (Status shed = shed_mappings(); !shed.ok()) return shed;
    grown = grow(search);
    if (grown.ok() || !grown.status().is_out_of_memory()) return grown;
  }
  // What this pool has idle was used already, but for what streams that are gone have left.
  // Twice, since others may use some of it while we wait.
  for (int i = 0; i < 2 && waiting_.capture_count() == 0; ++i) {
    const std::map<Arena*, int64_t> gone = uses_of_gone(*search.pool);
    if (gone.empty()) break;
    if (Status waited = device_.synchronize_device(); !waited.ok()) return waited;
    for (const auto& [arena, uses] : gone) arena->quiet_uses = uses;
    grown = grow(search);
    for (const auto& [arena, uses] : gone) arena->quiet_uses.reset();
    if (grown.ok() || !grown.status().is_out_of_memory()) return grown;
  }
  // The memory of others: whole segments, pools that were let go, and extents of another size.
  if (Status released = release_cached({}); !released.ok()) return released;
  {
    MutexLock lock(counting_mutex_);
    ++stats_.alloc_retries;
  }
  return grow(search);
}

// Of streams that are gone: others may get work, and go, even now.
std::map<Arena*, int64_t> PagedEngine::uses_of_gone(const PagedPool& pool) {
  std::map<Arena*, int64_t> uses;
  const AllArenas lock(pool);
  for (const auto& [stream, arena] : pool.arenas) {
    if (arena->is_gone) uses[arena.get()] = arena->uses();
  }
  return uses;
}

// Cached blocks of pools that said they may serve others, as long as somebody holds them; such a
// pool does not grow for it.
Block* PagedEngine::borrow_from_overflow_pools(Search& search) {
  if (search.pool != default_pool_) return nullptr;
  for (const auto& [id, pool] : pools_) {
    if (!pool->options.use_on_oom || pool->is_paused || routes_.is_freeable(id)) continue;
    const auto arena = pool->arenas.find(search.request.stream);
    if (arena == pool->arenas.end()) continue;
    Search lent = search;
    lent.arena = arena->second.get();
    if (Block* block = take_cached(lent, 1e9)) return block;
  }
  return nullptr;
}

Status PagedEngine::wait_for_waiting(PoolId pool) {
  {
    MutexLock lock(counting_mutex_);
    ++stats_.sync_all_streams;
  }
  std::function<bool(const Block&)> wanted;
  if (!pool.is_default()) {
    wanted = [pool](const Block& block) {
      return static_cast<const PagedBlock&>(block).arena->pool.id == pool;
    };
  }
  std::vector<Block*> finished;
  Status waited = waiting_.wait(finished, wanted);
  make_all_free(finished);
  return waited;
}

// --- the report
// -----------------------------------------------------------------------------------

Status PagedEngine::report_oom(const Search& search) {
  const Result<MemoryStats> use = device_.memory_stats();
  const size_t device_free_bytes = use.ok() ? use->free_bytes : 0;
  settle();
  size_t allocated_bytes = 0;
  size_t reserved_bytes = 0;
  {
    MutexLock lock(counting_mutex_);
    ++(search.rejected ? stats_.oom_rejections : stats_.ooms);
    allocated_bytes = static_cast<size_t>(stats_.allocated_bytes.all.current);
    reserved_bytes = static_cast<size_t>(stats_.reserved_bytes.all.current);
  }
  std::string message = text("tried to allocate ", format_bytes(search.request.bytes), " (",
                             format_bytes(search.device_bytes), " more from the device) on device ",
                             index_, ", which has ", format_bytes(capacity_bytes_), " in all and ",
                             format_bytes(device_free_bytes), " free. ");
  if (memory_fraction_ < 1) {
    message += text(format_bytes(limit_bytes()), " are allowed to this process. ");
  }
  message +=
      text(format_bytes(allocated_bytes), " are allocated; ",
           format_bytes(reserved_bytes - allocated_bytes), " are reserved but not allocated.");
  if (search.lacks_room) {
    message += text(" The device has no mappings or addresses left: ", mapping_count_,
                    " mappings are in use here.");
  }
  if (granule_bytes_ == 0) {
    message += " The device cannot map memory at several addresses: whole segments are used.";
  }
  if (!search.rejected) {
    TraceEntry entry;
    entry.action = TraceAction::kOom;
    entry.address = DeviceAddress(device_free_bytes);
    entry.bytes = search.bytes;
    entry.stream = search.request.stream;
    entry.pool = search.pool->id;
    entry.stack = caller_stack_;
    hooks_.record(entry);
  }
  const OomNotice notice{index_, search.device_bytes, limit_bytes(), device_free_bytes};
  MutexUnlock unlocked(mutex_);
  hooks_.notify_oom(notice, search.rejected);
  // What a limit refused is nobody else's fault.
  if (device_free_bytes < search.device_bytes)
    message += describe_device_processes(device_, reserved_bytes);
  return Status::out_of_memory(std::move(message));
}

}  // namespace ashlar::paged
