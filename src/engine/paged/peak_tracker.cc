// SPDX-License-Identifier: Apache-2.0
//
// Sums counters and divides headroom. The file is long because the sums, the headroom and the set
// of resting arenas change together.
#include "engine/paged/peak_tracker.h"

#include <algorithm>
#include <utility>

namespace ashlar::paged {
namespace {

// The number of arenas that updates visit before any rests. Few, because a visit takes a tenth of
// a microsecond, and a resting arena keeps its headroom.
constexpr size_t kMaxWatchedArenas = 8;
// The number of updates that must find an arena unchanged before it rests.
constexpr int kUpdatesBeforeRest = 2;

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
}

void raise_peak(Stat& stat) { stat.peak = std::max(stat.peak, stat.current); }

void erase_sorted(std::vector<Arena*>& arenas, Arena* arena) {
  const auto found = std::lower_bound(arenas.begin(), arenas.end(), arena, has_lower_serial);
  if (found != arenas.end() && *found == arena) arenas.erase(found);
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
  if (const auto found = pool.arenas.find(stream); found != pool.arenas.end()) {
    return *found->second;
  }
  for (auto* list : {&arenas_, &watched_, &keepers_}) reserve_amortized(*list, arenas_.size() + 1);
  UsageStats& pool_usage = stats_.pools[pool.id];
  UsageStats& stream_usage = stats_.streams[stream];
  for (const UsageStats* usage : {&pool_usage, &stream_usage}) usage_shares_[usage];
  Arena& arena = pool.add_arena(stream, ++last_serial_, addresses);
  arena.pool_usage = &pool_usage;
  arena.stream_usage = &stream_usage;
  arenas_.push_back(&arena);
  watched_.push_back(&arena);
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
  if (const auto found = stats_.pools.find(pool.id); found != stats_.pools.end()) {
    usage_shares_.erase(&found->second);
    stats_.pools.erase(found);
  }
}

void PeakTracker::count_reserved(const Arena& arena, bool is_small, int64_t bytes) noexcept {
  MutexLock lock(mutex_);
  ++(bytes > 0 ? stats_.device_allocs : stats_.device_frees);
  for (StatTriple* reserved : {&stats_.reserved_bytes, &arena.pool_usage->reserved_bytes,
                               &arena.stream_usage->reserved_bytes}) {
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
  move(extent.arena->pool_usage->reserved_bytes, to.pool_usage->reserved_bytes);
  move(extent.arena->stream_usage->reserved_bytes, to.stream_usage->reserved_bytes);
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

PeakTracker::Usage PeakTracker::count_oom(bool is_rejection) noexcept {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  ++(is_rejection ? stats_.oom_rejections : stats_.ooms);
  return {static_cast<size_t>(stats_.allocated_bytes.all.current),
          static_cast<size_t>(stats_.reserved_bytes.all.current)};
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
    raise_peaks(watched_);
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
    Counters& counted = arena.tracked.counted[sub.is_small ? 1 : 0];
    if (sub.counters == counted) continue;
    Counters change = sub.counters;
    change.subtract(counted);
    add({stats_, arena.pool_usage, arena.stream_usage, sub.is_small}, change);
    counted = sub.counters;
    is_changed = true;
  }
  if (is_changed) arena.raise_highest();
  return is_changed;
}

void PeakTracker::raise_peaks(const std::vector<Arena*>& arenas) {
  for_each_stat(stats_, raise_peak);
  for (const Arena* arena : arenas) {
    for_each_stat(*arena->pool_usage, raise_peak);
    for_each_stat(*arena->stream_usage, raise_peak);
  }
  highest_allocated_bytes_ = std::max(highest_allocated_bytes_, stats_.allocated_bytes.all.current);
}

// Sets the watched arenas' levels from their shares of the headroom of each sum. A different set of
// arenas shares each sum; usually only one arena contributes to the sum of a stream.
void PeakTracker::divide_headroom(const Arena* requester) {
  ++round_;
  all_shares_.begin(round_);
  for (HeadroomShares& shares : size_shares_) shares.begin(round_);
  for (const Arena* arena : watched_) {
    const bool is_requester = arena == requester;
    const PeakHeadroom wanted = arena->wanted_headroom();
    all_shares_.add(wanted, is_requester);
    shares_of(arena->pool_usage).add(wanted, is_requester);
    shares_of(arena->stream_usage).add(wanted, is_requester);
    for (const SubArena& sub : arena->sub_arenas) {
      size_shares_[sub.is_small ? 1 : 0].add(sub.wanted_headroom(), is_requester);
    }
  }
  for (Arena* arena : watched_) give_headroom(*arena, arena == requester);
}

// Returns the shares of a sum in the current division.
PeakTracker::HeadroomShares& PeakTracker::shares_of(const UsageStats* usage) {
  HeadroomShares& shares = usage_shares_.find(usage)->second;
  if (shares.round != round_) shares.begin(round_);
  return shares;
}

void PeakTracker::give_headroom(Arena& arena, bool is_requester) {
  const PeakHeadroom wanted = arena.wanted_headroom();
  const auto share_of_usage = [&](const UsageStats& usage) ASHLAR_REQUIRES(mutex_) {
    return share_of(headroom_of(usage), wanted, shares_of(&usage), is_requester);
  };
  const PeakHeadroom together = PeakHeadroom::min(
      share_of(headroom_of(stats_, &StatTriple::all), wanted, all_shares_, is_requester),
      PeakHeadroom::min(share_of_usage(*arena.pool_usage), share_of_usage(*arena.stream_usage)));
  std::array<PeakLevel, 2> levels;
  for (const SubArena& sub : arena.sub_arenas) {
    const size_t kind = sub.is_small ? 1 : 0;
    const auto part = sub.is_small ? &StatTriple::small_pool : &StatTriple::large_pool;
    levels[kind] = PeakLevel::above(sub.counters.net(),
                                    share_of(headroom_of(stats_, part), sub.wanted_headroom(),
                                             size_shares_[kind], is_requester));
  }
  arena.set_levels(PeakLevel::above(arena.net(), together), levels);
}

// If the headroom suffices for all requests, each arena gets its request and a share of the
// remainder; half of the remainder goes to the requester, if any. Otherwise the requester is served
// first.
PeakHeadroom PeakTracker::share_of(PeakHeadroom headroom, const PeakHeadroom& wanted,
                                   const HeadroomShares& shares, bool is_requester) {
  headroom.subtract(shares.kept);
  const int64_t count = shares.count;
  const auto share = [&](int64_t PeakHeadroom::*part) ASHLAR_REQUIRES(mutex_) {
    const int64_t spare = headroom.*part - shares.wanted.*part;
    if (spare >= 0) {
      const int64_t parts = count == 1 ? 1 : is_requester ? 2 : 2 * (count - 1);
      return wanted.*part + spare / parts;
    }
    if (shares.kept.*part > 0) is_kept_headroom_wanted_ = true;
    if (is_requester || count == 1) return std::min(wanted.*part, headroom.*part);
    return std::max<int64_t>(headroom.*part - shares.wanted_by_requester.*part, 0) / count;
  };
  return {share(&PeakHeadroom::count), share(&PeakHeadroom::bytes),
          share(&PeakHeadroom::requested_bytes)};
}

// Lets an arena rest. It keeps the headroom that it needs to return to its highest value, as far as
// its levels allow. REQUIRES: the arena's lock, held by lock_unbiased.
void PeakTracker::rest(Arena& arena) {
  PeakTrackerRecord& tracked = arena.tracked;
  tracked.is_resting = true;
  tracked.kept = PeakHeadroom::min(arena.wanted_headroom(), arena.headroom());
  std::array<PeakLevel, 2> levels;
  bool is_keeper = !(tracked.kept == PeakHeadroom{});
  for (const SubArena& sub : arena.sub_arenas) {
    const size_t kind = sub.is_small ? 1 : 0;
    const Amount net = sub.counters.net();
    tracked.kept_by_size[kind] =
        PeakHeadroom::min(sub.wanted_headroom(), sub.size_level.headroom_above(net));
    is_keeper = is_keeper || !(tracked.kept_by_size[kind] == PeakHeadroom{});
    levels[kind] = PeakLevel::above(net, tracked.kept_by_size[kind]);
    size_shares_[kind].kept.add(tracked.kept_by_size[kind]);
  }
  arena.set_levels(PeakLevel::above(arena.net(), tracked.kept), levels);
  all_shares_.kept.add(tracked.kept);
  shares_of(arena.pool_usage).kept.add(tracked.kept);
  shares_of(arena.stream_usage).kept.add(tracked.kept);
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

// The arena's levels still allow this headroom until they are set again.
void PeakTracker::subtract_kept_headroom(Arena& arena) {
  PeakTrackerRecord& tracked = arena.tracked;
  all_shares_.kept.subtract(tracked.kept);
  shares_of(arena.pool_usage).kept.subtract(tracked.kept);
  shares_of(arena.stream_usage).kept.subtract(tracked.kept);
  tracked.kept = {};
  for (size_t kind = 0; kind < tracked.kept_by_size.size(); ++kind) {
    size_shares_[kind].kept.subtract(tracked.kept_by_size[kind]);
    tracked.kept_by_size[kind] = {};
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
  return stats_;
}

void PeakTracker::reset_peaks() noexcept {
  MutexLock lock(mutex_);
  update_peaks_locked(nullptr);
  release_kept_headroom();
  stats_.reset_peaks();
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
  stats_.reset_totals();
  for (Arena* arena : arenas_) {
    for (SubArena& sub : arena->sub_arenas) {
      sub.counters.reset_totals();
      arena->tracked.counted[sub.is_small ? 1 : 0] = sub.counters;
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
