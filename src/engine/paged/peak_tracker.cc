// SPDX-License-Identifier: Apache-2.0
//
// Sums counters and divides headroom. The file is long because the sums, the headroom and the set
// of resting arenas change together.
#include "engine/paged/peak_tracker.h"

#include <algorithm>
#include <utility>

namespace ashlar::paged {
namespace {

// No arena rests while updates visit at most this many: a visit takes a tenth of a microsecond, and
// a resting arena keeps headroom that other arenas may need. With 8, the first allocation on a
// stream takes an eighth more instructions (docs/internals/experiments/paged_engine.md).
constexpr size_t kMaxWatchedArenas = 4;
// The number of updates that must find an arena unchanged before it rests.
constexpr int kUpdatesBeforeRest = 2;

// The sums that a counter is part of.
struct Sums {
  AllocatorStats& all;
  UsageStats& pool;
  UsageStats& stream;
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
}

void raise_peak(Stat& stat) { stat.peak = std::max(stat.peak, stat.current); }

void erase_sorted(std::vector<Arena*>& arenas, Arena* arena) {
  const auto found = std::lower_bound(arenas.begin(), arenas.end(), arena, has_lower_serial);
  if (found != arenas.end() && *found == arena) arenas.erase(found);
}

// Adds an increase and a decrease that happened since the last call.
void add(Stat& stat, int64_t increase, int64_t decrease) {
  stat.current += increase - decrease;
  stat.increased += increase;
  stat.decreased += decrease;
}

void add(const Sums& sums, const RunningCounters& change) {
  const Amount& more = change.total_allocated;
  const Amount& less = change.total_freed;
  Amount less_active = less;
  less_active.subtract(change.pending);
  for (const bool is_whole : {true, false}) {
    const auto part = [&](StatTriple& triple) -> Stat& {
      return is_whole ? triple.all : triple.of(sums.is_small);
    };
    add(part(sums.all.allocation), more.count, less.count);
    add(part(sums.all.allocated_bytes), more.bytes, less.bytes);
    add(part(sums.all.active), more.count, less_active.count);
    add(part(sums.all.active_bytes), more.bytes, less_active.bytes);
    add(part(sums.all.requested_bytes), more.requested_bytes, less_active.requested_bytes);
  }
  for (UsageStats* usage : {&sums.pool, &sums.stream}) {
    add(usage->allocation, more.count, less.count);
    add(usage->allocated_bytes, more.bytes, less.bytes);
    add(usage->active_bytes, more.bytes, less_active.bytes);
    add(usage->requested_bytes, more.requested_bytes, less_active.requested_bytes);
  }
}

void set_current(StatTriple& triple, bool is_small, int64_t value) {
  const int64_t more = value - triple.of(is_small).current;
  if (more > 0) triple.increase(is_small, more);
  if (more < 0) triple.decrease(is_small, -more);
}

// Returns how far a sum can rise without exceeding its peak.
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
  const bool is_last = last_found_ != nullptr && &last_found_->pool == &pool;
  if (is_last && last_found_->stream == stream) return *last_found_;
  if (const auto found = pool.arenas.find(stream); found != pool.arenas.end()) {
    last_found_ = found->second.get();
    return *last_found_;
  }
  for (auto* list : {&arenas_, &watched_, &keepers_}) reserve_amortized(*list, arenas_.size() + 1);
  UsageSum& pool_sum = pool_sums_[pool.id];
  // A new stream usually has the highest handle, so the hint saves a search.
  UsageSum& stream_sum = stream_sums_.try_emplace(stream_sums_.end(), stream)->second;
  Arena& arena = pool.add_arena(stream, ++last_serial_, addresses);
  arena.pool_sum = &pool_sum;
  arena.stream_sum = &stream_sum;
  arenas_.push_back(&arena);
  watched_.push_back(&arena);
  last_found_ = &arena;
  return arena;
}

void PeakTracker::remove_arenas(const PagedPool& pool) noexcept {
  MutexLock lock(mutex_);
  for (const auto& [stream, arena] : pool.arenas) {
    const BiasedLock wakes_arena(arena->lock);
    add_changes(*arena);
  }
  watch_woken_arenas();
  for (const auto& [stream, arena] : pool.arenas) {
    for (auto* list : {&arenas_, &watched_}) erase_sorted(*list, arena.get());
    std::erase(keepers_, arena.get());
  }
  pool_sums_.erase(pool.id);
  last_found_ = nullptr;
}

void PeakTracker::count_reserved(const Arena& arena, bool is_small, int64_t bytes) noexcept {
  MutexLock lock(mutex_);
  ++(bytes > 0 ? stats_.device_allocs : stats_.device_frees);
  for (StatTriple* reserved : {&stats_.reserved_bytes, &arena.pool_sum->stats.reserved_bytes,
                               &arena.stream_sum->stats.reserved_bytes}) {
    if (bytes > 0) reserved->increase(is_small, bytes);
    if (bytes < 0) reserved->decrease(is_small, -bytes);
  }
}

void PeakTracker::move_reserved(const Extent& extent, const Arena& to, bool is_small) noexcept {
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
  move(extent.arena->pool_sum->stats.reserved_bytes, to.pool_sum->stats.reserved_bytes);
  move(extent.arena->stream_sum->stats.reserved_bytes, to.stream_sum->stats.reserved_bytes);
}

void PeakTracker::count_segments(bool is_small, int64_t more) noexcept {
  MutexLock lock(mutex_);
  if (more > 0) stats_.segment.increase(is_small, more);
  if (more < 0) stats_.segment.decrease(is_small, -more);
}

void PeakTracker::count_stitch() noexcept {
  MutexLock lock(mutex_);
  ++stats_.stitches;
}

void PeakTracker::count_retry() noexcept {
  MutexLock lock(mutex_);
  ++stats_.alloc_retries;
}

void PeakTracker::count_stream_sync() noexcept {
  MutexLock lock(mutex_);
  ++stats_.sync_all_streams;
}

OomUsage PeakTracker::count_oom(bool is_rejection) noexcept {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  ++(is_rejection ? stats_.oom_rejections : stats_.ooms);
  OomUsage usage{static_cast<size_t>(stats_.allocated_bytes.all.current),
                 static_cast<size_t>(stats_.reserved_bytes.all.current), 0};
  for (const auto& [id, sum] : pool_sums_) {
    if (!id.is_default()) usage.cached_in_private_pools_bytes += cached_bytes(sum.stats);
  }
  return usage;
}

void PeakTracker::update_peaks(const Arena* requester) noexcept {
  MutexLock lock(mutex_);
  update_peaks_locked(requester);
}

// Adds the changes of all watched arenas while all of them are locked, so that the sums are those
// of one moment.
void PeakTracker::update_peaks_locked(const Arena* requester) {
  if (is_kept_headroom_wanted_) release_kept_headroom();
  for (bool is_complete = false; !is_complete;) {
    watch_woken_arenas();
    const ArenaLocks lock(watched_);
    is_complete = woken_.empty();  // otherwise an arena has woken since
    if (!is_complete) continue;
    visited_arena_count_ += watched_.size();
    for (Arena* arena : watched_) {
      int& unchanged_count = arena->tracked.unchanged_count;
      unchanged_count = add_changes(*arena) ? 0 : unchanged_count + 1;
    }
    raise_peaks();
    divide_headroom(requester);
    if (watched_.size() <= kMaxWatchedArenas) continue;
    for (Arena* arena : watched_) {
      if (arena != requester && arena->tracked.unchanged_count >= kUpdatesBeforeRest) rest(*arena);
    }
  }
  std::erase_if(watched_, [](const Arena* arena) { return arena->tracked.is_resting; });
}

// Adds to the sums the changes of the arena's counters since the last call. Returns whether any
// counter changed. REQUIRES: the arena's lock.
bool PeakTracker::add_changes(Arena& arena) {
  bool is_changed = false;
  for (const SubArena& sub : arena.sub_arenas) {
    RunningCounters& counted = arena.tracked.counted[sub.is_small ? 1 : 0];
    if (!sub.counters.running().has_changed_since(counted)) continue;
    RunningCounters change = sub.counters.running();
    change.subtract(counted);
    add({stats_, arena.pool_sum->stats, arena.stream_sum->stats, sub.is_small}, change);
    counted = sub.counters.running();
    is_changed = true;
  }
  if (is_changed) arena.raise_highest();
  return is_changed;
}

// Raises the peaks of the sums that the last calls of `add_changes` for the watched arenas changed.
void PeakTracker::raise_peaks() {
  for_each_stat(stats_, raise_peak);
  for (const Arena* arena : watched_) {
    if (arena->tracked.unchanged_count != 0) continue;
    for_each_stat(arena->pool_sum->stats, raise_peak);
    for_each_stat(arena->stream_sum->stats, raise_peak);
  }
  highest_allocated_bytes_ = std::max(highest_allocated_bytes_, stats_.allocated_bytes.all.current);
}

// Sets the watched arenas' levels from their shares of the headroom of each sum. A different set of
// arenas shares each sum; usually only one arena contributes to the sum of a stream.
void PeakTracker::divide_headroom(const Arena* requester) {
  ++round_;
  all_shares_.begin(round_, headroom_of(stats_, &StatTriple::all));
  // The usual case while a program grows: all sums of the engine are at their peaks.
  const bool has_none =
      all_shares_.available == PeakHeadroom{} && all_shares_.kept == PeakHeadroom{};
  if (has_none) {
    for (Arena* arena : watched_) arena->remove_headroom();
    return;
  }
  size_shares_[0].begin(round_, headroom_of(stats_, &StatTriple::large_pool));
  size_shares_[1].begin(round_, headroom_of(stats_, &StatTriple::small_pool));
  for (const Arena* arena : watched_) {
    const bool is_requester = arena == requester;
    const PeakHeadroom wanted = arena->wanted_headroom();
    all_shares_.add(wanted, is_requester);
    for (UsageSum* sum : {arena->pool_sum, arena->stream_sum}) {
      if (sum->shares.round != round_) sum->shares.begin(round_, headroom_of(sum->stats));
      sum->shares.add(wanted, is_requester);
    }
    for (const SubArena& sub : arena->sub_arenas) {
      if (sub.counters.is_unused()) continue;
      size_shares_[sub.is_small ? 1 : 0].add(sub.wanted_headroom(), is_requester);
    }
  }
  const bool is_any_kept_needed =
      all_shares_.needs_kept() || size_shares_[0].needs_kept() || size_shares_[1].needs_kept();
  if (is_any_kept_needed) is_kept_headroom_wanted_ = true;
  for (Arena* arena : watched_) give_headroom(*arena, arena == requester);
}

void PeakTracker::give_headroom(Arena& arena, bool is_requester) {
  const PeakHeadroom wanted = arena.wanted_headroom();
  PeakHeadroom together = all_shares_.share_for(wanted, is_requester);
  for (const UsageSum* sum : {arena.pool_sum, arena.stream_sum}) {
    if (sum->shares.needs_kept()) is_kept_headroom_wanted_ = true;
    together = PeakHeadroom::min(together, sum->shares.share_for(wanted, is_requester));
  }
  std::array<PeakLevel, 2> levels;
  for (const SubArena& sub : arena.sub_arenas) {
    if (sub.counters.is_unused()) continue;
    const size_t kind = sub.is_small ? 1 : 0;
    levels[kind] = PeakLevel::above(
        sub.counters.net(), size_shares_[kind].share_for(sub.wanted_headroom(), is_requester));
  }
  arena.set_levels(PeakLevel::above(arena.net(), together), levels);
}

// Lets an arena rest. The arena keeps the headroom that it needs to return to its highest value, as
// far as its levels allow. REQUIRES: the arena's lock, held by lock_unbiased.
void PeakTracker::rest(Arena& arena) {
  PeakTrackerRecord& tracked = arena.tracked;
  tracked.is_resting = true;
  tracked.kept_headroom = PeakHeadroom::min(arena.wanted_headroom(), arena.headroom());
  std::array<PeakLevel, 2> levels;
  bool is_keeper = !(tracked.kept_headroom == PeakHeadroom{});
  for (const SubArena& sub : arena.sub_arenas) {
    if (sub.counters.is_unused()) continue;
    const size_t kind = sub.is_small ? 1 : 0;
    const Amount net = sub.counters.net();
    tracked.kept_headroom_by_size[kind] =
        PeakHeadroom::min(sub.wanted_headroom(), sub.size_level.headroom_above(net));
    is_keeper = is_keeper || !(tracked.kept_headroom_by_size[kind] == PeakHeadroom{});
    levels[kind] = PeakLevel::above(net, tracked.kept_headroom_by_size[kind]);
    size_shares_[kind].kept.add(tracked.kept_headroom_by_size[kind]);
  }
  arena.set_levels(PeakLevel::above(arena.net(), tracked.kept_headroom), levels);
  all_shares_.kept.add(tracked.kept_headroom);
  arena.pool_sum->shares.kept.add(tracked.kept_headroom);
  arena.stream_sum->shares.kept.add(tracked.kept_headroom);
  if (is_keeper && !std::exchange(tracked.is_in_keepers, true)) keepers_.push_back(&arena);
  arena.lock.watch(tracked.watch, woken_);
}

void PeakTracker::watch_woken_arenas() {
  for (LockWatch* each = woken_.take_all(); each != nullptr; each = each->next) {
    Arena& arena = static_cast<ArenaWatch*>(each)->arena;
    arena.tracked.is_resting = false;
    arena.tracked.unchanged_count = 0;
    subtract_kept_headroom(arena);
    watched_.insert(std::lower_bound(watched_.begin(), watched_.end(), &arena, has_lower_serial),
                    &arena);
  }
}

// Subtracts the arena's kept headroom from HeadroomShares::kept, so that arenas can share it again.
// The arena's levels include this headroom until they are set again.
void PeakTracker::subtract_kept_headroom(Arena& arena) {
  PeakTrackerRecord& tracked = arena.tracked;
  all_shares_.kept.subtract(tracked.kept_headroom);
  arena.pool_sum->shares.kept.subtract(tracked.kept_headroom);
  arena.stream_sum->shares.kept.subtract(tracked.kept_headroom);
  tracked.kept_headroom = {};
  for (size_t kind = 0; kind < tracked.kept_headroom_by_size.size(); ++kind) {
    size_shares_[kind].kept.subtract(tracked.kept_headroom_by_size[kind]);
    tracked.kept_headroom_by_size[kind] = {};
  }
}

// Takes the headroom that resting arenas keep. Their next allocations update the peaks.
void PeakTracker::release_kept_headroom() {
  is_kept_headroom_wanted_ = false;
  watch_woken_arenas();
  for (Arena* arena : keepers_) {
    arena->tracked.is_in_keepers = false;
    if (!arena->tracked.is_resting) continue;
    arena->lock.lock_unbiased();
    arena->clear_levels();
    arena->lock.unlock_unbiased();
    subtract_kept_headroom(*arena);
  }
  keepers_.clear();
}

AllocatorStats PeakTracker::stats(const InactiveSplits& inactive) {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  for (const bool is_small : {false, true}) {
    set_current(stats_.inactive_split, is_small, inactive[is_small ? 1 : 0].count);
    set_current(stats_.inactive_split_bytes, is_small, inactive[is_small ? 1 : 0].bytes);
  }
  AllocatorStats result = stats_;
  for (const auto& [id, sum] : pool_sums_) {
    result.pools.emplace_hint(result.pools.end(), id, sum.stats);
  }
  for (const auto& [id, sum] : stream_sums_) {
    result.streams.emplace_hint(result.streams.end(), id, sum.stats);
  }
  return result;
}

// Passes the statistics of all pools and streams to `visit`.
template <typename Visit>
void PeakTracker::for_each_usage(const Visit& visit) {
  for (auto& [id, sum] : pool_sums_) visit(sum.stats);
  for (auto& [id, sum] : stream_sums_) visit(sum.stats);
}

void PeakTracker::reset_peaks() noexcept {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  release_kept_headroom();
  stats_.reset_peaks();
  for_each_usage([](UsageStats& usage) {
    for_each_stat(usage, [](Stat& stat) { stat.reset_peak(); });
    usage.reserved_bytes.reset_peak();
  });
  {
    const ArenaLocks all(arenas_);
    for (Arena* arena : arenas_) {
      arena->forget_highest();
      arena->raise_highest();
    }
  }
  update_peaks_locked(nullptr);
}

void PeakTracker::reset_totals() noexcept {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  release_kept_headroom();
  const ArenaLocks all(arenas_);
  for (Arena* arena : arenas_) add_changes(*arena);
  for_each_stat(stats_, raise_peak);
  stats_.reset_totals();
  for_each_usage([](UsageStats& usage) {
    for_each_stat(usage, raise_peak);
    for_each_stat(usage, [](Stat& stat) { stat.reset_totals(); });
    usage.reserved_bytes.reset_totals();
  });
  for (Arena* arena : arenas_) {
    for (SubArena& sub : arena->sub_arenas) {
      sub.counters.reset_totals();
      arena->tracked.counted[sub.is_small ? 1 : 0] = sub.counters.running();
    }
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

uint64_t PeakTracker::visited_arena_count() const {
  MutexLock lock(mutex_);
  return visited_arena_count_;
}

}  // namespace ashlar::paged
