// SPDX-License-Identifier: Apache-2.0
//
// Sums counters and divides headroom.
#include "engine/paged/peak_tracker.h"

#include <algorithm>

namespace ashlar::paged {
namespace {

// The sums that a counter is part of.
struct Sums {
  AllocatorStats& all;
  UsageStats* pool;
  UsageStats* stream;
  bool is_small;
};

template <typename Visit>
void for_each_stat(UsageStats& usage, const Visit& visit) {
  for (Stat* stat :
       {&usage.allocation, &usage.allocated_bytes, &usage.active_bytes, &usage.requested_bytes}) {
    visit(*stat);
  }
}

template <typename Visit>
void for_each_stat(AllocatorStats& stats, const Visit& visit) {
  for (StatTriple* triple : {&stats.allocation, &stats.allocated_bytes, &stats.active,
                             &stats.active_bytes, &stats.requested_bytes}) {
    for (Stat* stat : {&triple->all, &triple->small_pool, &triple->large_pool}) visit(*stat);
  }
  for (auto& [id, usage] : stats.pools) for_each_stat(usage, visit);
  for (auto& [id, usage] : stats.streams) for_each_stat(usage, visit);
}

void add(Stat& stat, int64_t current, int64_t increased, int64_t at_reset) {
  stat.current += current;
  stat.increased += increased;
  stat.decreased += increased - (current - at_reset);
}

void add(const Sums& sums, const Counters& counters) {
  const Amount now = counters.allocated();
  const Amount active = counters.active();
  const Amount& total = counters.total_allocated;
  const Amount& then = counters.allocated_at_reset;
  const Amount& active_then = counters.active_at_reset;
  for (const bool is_whole : {true, false}) {
    const auto part = [&](StatTriple& triple) -> Stat& {
      return is_whole ? triple.all : triple.of(sums.is_small);
    };
    add(part(sums.all.allocation), now.count, total.count, then.count);
    add(part(sums.all.allocated_bytes), now.bytes, total.bytes, then.bytes);
    add(part(sums.all.active), active.count, total.count, active_then.count);
    add(part(sums.all.active_bytes), active.bytes, total.bytes, active_then.bytes);
    add(part(sums.all.requested_bytes), active.requested_bytes, total.requested_bytes,
        active_then.requested_bytes);
  }
  for (UsageStats* usage : {sums.pool, sums.stream}) {
    if (usage == nullptr) continue;
    add(usage->allocation, now.count, total.count, then.count);
    add(usage->allocated_bytes, now.bytes, total.bytes, then.bytes);
    add(usage->active_bytes, active.bytes, total.bytes, active_then.bytes);
    add(usage->requested_bytes, active.requested_bytes, total.requested_bytes,
        active_then.requested_bytes);
  }
}

void set_current(StatTriple& triple, bool is_small, int64_t value) {
  const int64_t more = value - triple.of(is_small).current;
  if (more > 0) triple.increase(is_small, more);
  if (more < 0) triple.decrease(is_small, -more);
}

// How far a sum can rise without exceeding its peak.
int64_t headroom(const Stat& stat) { return stat.peak - stat.current; }

PeakHeadroom headroom_of(const UsageStats& usage) {
  return {headroom(usage.allocation),
          std::min(headroom(usage.allocated_bytes), headroom(usage.active_bytes)),
          headroom(usage.requested_bytes)};
}

// Returns the headroom of all blocks, of small blocks or of large blocks, as `part` selects.
PeakHeadroom headroom_of(const AllocatorStats& all, Stat StatTriple::*part) {
  return {std::min(headroom(all.allocation.*part), headroom(all.active.*part)),
          std::min(headroom(all.allocated_bytes.*part), headroom(all.active_bytes.*part)),
          headroom(all.requested_bytes.*part)};
}

}  // namespace

Arena& PeakTracker::arena_of(PagedPool& pool, StreamId stream, BlockTable& addresses) {
  MutexLock lock(mutex_);
  std::unique_ptr<Arena>& arena = pool.arenas[stream];
  if (arena == nullptr) {
    arena = std::make_unique<Arena>(pool, stream, ++last_serial_, addresses);
    arena->pool_usage = &stats_.pools[pool.id];
    arena->stream_usage = &stats_.streams[stream];
    arenas_.push_back(arena.get());
  }
  return *arena;
}

void PeakTracker::remove_arenas(const PagedPool& pool) {
  MutexLock lock(mutex_);
  for (const auto& [stream, arena] : pool.arenas) {
    for (const SubArena& sub : arena->sub_arenas) {
      Counters& kept = removed_arena_counters_[stream][sub.is_small ? 1 : 0];
      kept.total_allocated.add(sub.counters.total_allocated);
      kept.total_freed.add(sub.counters.total_freed);
      kept.allocated_at_reset.add(sub.counters.allocated_at_reset);
      kept.active_at_reset.add(sub.counters.active_at_reset);
    }
    std::erase(arenas_, arena.get());
  }
  if (const auto found = stats_.pools.find(pool.id); found != stats_.pools.end()) {
    usage_shares_.erase(&found->second);
    stats_.pools.erase(found);
  }
}

void PeakTracker::count_reserved(const Arena& arena, bool is_small, int64_t bytes) {
  MutexLock lock(mutex_);
  ++(bytes > 0 ? stats_.device_allocs : stats_.device_frees);
  for (StatTriple* reserved : {&stats_.reserved_bytes, &arena.pool_usage->reserved_bytes,
                               &arena.stream_usage->reserved_bytes}) {
    if (bytes > 0) reserved->increase(is_small, bytes);
    if (bytes < 0) reserved->decrease(is_small, -bytes);
  }
}

void PeakTracker::move_reserved(const Extent& extent, const Arena& to, bool is_small) {
  const auto bytes = static_cast<int64_t>(extent.bytes);
  MutexLock lock(mutex_);
  const auto move = [&](StatTriple& from, StatTriple& into) {
    from.decrease(extent.is_small, bytes);
    into.increase(is_small, bytes);
  };
  if (extent.is_small != is_small) {
    stats_.reserved_bytes.of(extent.is_small).decrease(bytes);
    stats_.reserved_bytes.of(is_small).increase(bytes);
  }
  move(extent.arena->pool_usage->reserved_bytes, to.pool_usage->reserved_bytes);
  move(extent.arena->stream_usage->reserved_bytes, to.stream_usage->reserved_bytes);
}

void PeakTracker::count_segments(bool is_small, int64_t more) {
  MutexLock lock(mutex_);
  if (more > 0) stats_.segment.increase(is_small, more);
  if (more < 0) stats_.segment.decrease(is_small, -more);
}

void PeakTracker::count_stitch() {
  MutexLock lock(mutex_);
  ++stats_.stitches;
}

void PeakTracker::count_retry() {
  MutexLock lock(mutex_);
  ++stats_.alloc_retries;
}

void PeakTracker::count_stream_sync() {
  MutexLock lock(mutex_);
  ++stats_.sync_all_streams;
}

PeakTracker::Usage PeakTracker::count_oom(bool is_rejection) {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  ++(is_rejection ? stats_.oom_rejections : stats_.ooms);
  return {static_cast<size_t>(stats_.allocated_bytes.all.current),
          static_cast<size_t>(stats_.reserved_bytes.all.current)};
}

void PeakTracker::update_peaks(const Arena* requester) {
  MutexLock lock(mutex_);
  update_peaks_locked(requester);
}

void PeakTracker::update_peaks_locked(const Arena* requester) {
  ArenaLocks lock(arenas_);
  for_each_stat(stats_, [](Stat& stat) { stat.current = stat.increased = stat.decreased = 0; });
  for (const Arena* arena : arenas_) {
    for (const SubArena& sub : arena->sub_arenas) {
      add({stats_, arena->pool_usage, arena->stream_usage, sub.is_small}, sub.counters);
    }
  }
  for (const auto& [stream, counters] : removed_arena_counters_) {
    for (const bool is_small : {false, true}) {
      const auto found = stats_.streams.find(stream);
      UsageStats* usage = found == stats_.streams.end() ? nullptr : &found->second;
      add({stats_, nullptr, usage, is_small}, counters[is_small ? 1 : 0]);
    }
  }
  for_each_stat(stats_, [](Stat& stat) { stat.peak = std::max(stat.peak, stat.current); });
  highest_allocated_bytes_ = std::max(highest_allocated_bytes_, stats_.allocated_bytes.all.current);
  for (Arena* arena : arenas_) arena->raise_highest();
  divide_headroom(requester);
}

// Sets the arenas' levels from their shares of the headroom of each sum. A different set of arenas
// shares each sum; usually only one arena contributes to the sum of a stream.
void PeakTracker::divide_headroom(const Arena* requester) {
  HeadroomShares all;
  std::array<HeadroomShares, 2> by_size;
  for (auto& [usage, shares] : usage_shares_) shares = {};
  for (const Arena* arena : arenas_) {
    const bool is_requester = arena == requester;
    const PeakHeadroom wanted = arena->wanted_headroom();
    all.add(wanted, is_requester);
    usage_shares_[arena->pool_usage].add(wanted, is_requester);
    usage_shares_[arena->stream_usage].add(wanted, is_requester);
    for (const SubArena& sub : arena->sub_arenas) {
      by_size[sub.is_small ? 1 : 0].add(sub.wanted_headroom(), is_requester);
    }
  }
  for (Arena* arena : arenas_) {
    const bool is_requester = arena == requester;
    const PeakHeadroom wanted = arena->wanted_headroom();
    const HeadroomShares& of_pool = usage_shares_.at(arena->pool_usage);
    const HeadroomShares& of_stream = usage_shares_.at(arena->stream_usage);
    const PeakHeadroom together = PeakHeadroom::min(
        share_of(headroom_of(stats_, &StatTriple::all), wanted, all, is_requester),
        PeakHeadroom::min(
            share_of(headroom_of(*arena->pool_usage), wanted, of_pool, is_requester),
            share_of(headroom_of(*arena->stream_usage), wanted, of_stream, is_requester)));
    std::array<PeakLevel, 2> levels;
    for (const SubArena& sub : arena->sub_arenas) {
      const size_t kind = sub.is_small ? 1 : 0;
      const auto part = sub.is_small ? &StatTriple::small_pool : &StatTriple::large_pool;
      levels[kind] = PeakLevel::above(
          sub.counters.net(),
          share_of(headroom_of(stats_, part), sub.wanted_headroom(), by_size[kind], is_requester));
    }
    arena->set_levels(PeakLevel::above(arena->net(), together), levels);
  }
}

// If the headroom suffices for all requests, each arena gets its request and a share of the
// remainder; half of the remainder goes to the requester, if any. Otherwise the requester is served
// first.
PeakHeadroom PeakTracker::share_of(const PeakHeadroom& headroom, const PeakHeadroom& wanted,
                                   const HeadroomShares& shares, bool is_requester) {
  const int64_t count = shares.count;
  const auto share = [&](int64_t PeakHeadroom::*part) {
    const int64_t spare = headroom.*part - shares.wanted.*part;
    if (spare >= 0) {
      const int64_t parts = count == 1 ? 1 : is_requester ? 2 : 2 * (count - 1);
      return wanted.*part + spare / parts;
    }
    if (is_requester || count == 1) return std::min(wanted.*part, headroom.*part);
    return std::max<int64_t>(headroom.*part - shares.wanted_by_requester.*part, 0) / count;
  };
  return {share(&PeakHeadroom::count), share(&PeakHeadroom::bytes),
          share(&PeakHeadroom::requested_bytes)};
}

AllocatorStats PeakTracker::stats(const InactiveSplits& inactive) {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  for (const bool is_small : {false, true}) {
    set_current(stats_.inactive_split, is_small, inactive[is_small ? 1 : 0].count);
    set_current(stats_.inactive_split_bytes, is_small, inactive[is_small ? 1 : 0].bytes);
  }
  return stats_;
}

void PeakTracker::reset_peaks() {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  stats_.reset_peaks();
  {
    ArenaLocks all(arenas_);
    for (Arena* arena : arenas_) arena->forget_highest();
  }
  update_peaks_locked(nullptr);
}

void PeakTracker::reset_totals() {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  stats_.reset_totals();
  removed_arena_counters_.clear();
  ArenaLocks all(arenas_);
  for (Arena* arena : arenas_) {
    for (SubArena& sub : arena->sub_arenas) sub.counters.reset_totals();
    arena->clear_levels();
    arena->forget_highest();
  }
}

int64_t PeakTracker::highest_allocated_bytes() const {
  MutexLock lock(mutex_);
  return highest_allocated_bytes_;
}

int64_t PeakTracker::reserved_bytes() const {
  MutexLock lock(mutex_);
  return stats_.reserved_bytes.all.current;
}

}  // namespace ashlar::paged
