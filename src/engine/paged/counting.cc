// SPDX-License-Identifier: Apache-2.0
//
// Statistics. Arenas count for themselves; sums are made here, when somebody reads them or when an
// arena reaches the level up to which nobody needs to look.
#include <algorithm>

#include "engine/paged/all_arenas.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

// The sums that a heap's counters are part of.
struct Sums {
  AllocatorStats& all;
  UsageStats* pool;
  UsageStats* stream;
  bool is_small;
};

void forget(Stat& stat) { stat.current = stat.risen = stat.fallen = 0; }

void forget(UsageStats& usage) {
  for (Stat* stat :
       {&usage.allocation, &usage.allocated_bytes, &usage.active_bytes, &usage.requested_bytes}) {
    forget(*stat);
  }
}

void forget(AllocatorStats& stats) {
  for (StatTriple* triple : {&stats.allocation, &stats.allocated_bytes, &stats.active,
                             &stats.active_bytes, &stats.requested_bytes}) {
    for (Stat* stat : {&triple->all, &triple->small_pool, &triple->large_pool}) forget(*stat);
  }
  for (auto& [id, usage] : stats.pools) forget(usage);
  for (auto& [id, usage] : stats.streams) forget(usage);
}

void add(Stat& stat, int64_t current, int64_t risen, int64_t at_reset) {
  stat.current += current;
  stat.risen += risen;
  stat.fallen += risen - (current - at_reset);
}

void add(const Sums& sums, const Counters& counters) {
  const Amount now = counters.allocated();
  const Amount active = counters.active();
  const Amount& risen = counters.risen;
  const Amount& then = counters.allocated_at_reset;
  const Amount& active_then = counters.active_at_reset;
  for (const bool whole : {true, false}) {
    const auto part = [&](StatTriple& triple) -> Stat& {
      return whole ? triple.all : triple.of(sums.is_small);
    };
    add(part(sums.all.allocation), now.count, risen.count, then.count);
    add(part(sums.all.allocated_bytes), now.bytes, risen.bytes, then.bytes);
    add(part(sums.all.active), active.count, risen.count, active_then.count);
    add(part(sums.all.active_bytes), active.bytes, risen.bytes, active_then.bytes);
    add(part(sums.all.requested_bytes), active.requested_bytes, risen.requested_bytes,
        active_then.requested_bytes);
  }
  for (UsageStats* usage : {sums.pool, sums.stream}) {
    if (usage == nullptr) continue;
    add(usage->allocation, now.count, risen.count, then.count);
    add(usage->allocated_bytes, now.bytes, risen.bytes, then.bytes);
    add(usage->active_bytes, active.bytes, risen.bytes, active_then.bytes);
    add(usage->requested_bytes, active.requested_bytes, risen.requested_bytes,
        active_then.requested_bytes);
  }
}

void raise_peak(Stat& stat) { stat.peak = std::max(stat.peak, stat.current); }

void raise_peaks(UsageStats& usage) {
  for (Stat* stat :
       {&usage.allocation, &usage.allocated_bytes, &usage.active_bytes, &usage.requested_bytes}) {
    raise_peak(*stat);
  }
}

void raise_peaks(AllocatorStats& stats) {
  for (StatTriple* triple : {&stats.allocation, &stats.allocated_bytes, &stats.active,
                             &stats.active_bytes, &stats.requested_bytes}) {
    for (Stat* stat : {&triple->all, &triple->small_pool, &triple->large_pool}) raise_peak(*stat);
  }
  for (auto& [id, usage] : stats.pools) raise_peaks(usage);
  for (auto& [id, usage] : stats.streams) raise_peaks(usage);
}

int64_t room(const Stat& stat) { return stat.peak - stat.current; }

// How far a sum could rise before it has a new peak.
Levels room_of(const UsageStats& usage) {
  return {room(usage.allocation), std::min(room(usage.allocated_bytes), room(usage.active_bytes)),
          room(usage.requested_bytes)};
}

// Of all blocks, or of the small or the large ones alone.
Levels room_of(const AllocatorStats& all, Stat StatTriple::*part) {
  return {std::min(room(all.allocation.*part), room(all.active.*part)),
          std::min(room(all.allocated_bytes.*part), room(all.active_bytes.*part)),
          room(all.requested_bytes.*part)};
}

// Those who share the room of one sum, and what they need to come where they have been before.
struct Sharers {
  Levels needs{0, 0, 0};
  Levels asked{0, 0, 0};  // of that, by the one that asks
  int64_t count = 0;

  void add(const Levels& need, bool is_asking) {
    ++count;
    needs = Levels{needs.count + need.count, needs.bytes + need.bytes,
                   needs.requested_bytes + need.requested_bytes};
    if (is_asking) asked = need;
  }
};

// Where there is room for all needs, each gets what it needs and a part of the rest, half of which
// goes to the one that asks: sooner or later nobody asks any more. Where there is not, that one
// comes first.
int64_t share_of(int64_t left, int64_t need, int64_t needs, int64_t asked, int64_t count,
                 bool is_asking) {
  const int64_t others = std::max<int64_t>(count - 1, 1);
  if (needs <= left) return need + (left - needs) / (count == 1 ? 1 : is_asking ? 2 : 2 * others);
  if (is_asking || count == 1) return std::min(need, left);
  return std::max<int64_t>(left - asked, 0) / count;
}

Levels share_of(const Levels& left, const Levels& need, const Sharers& sharers, bool is_asking) {
  return {share_of(left.count, need.count, sharers.needs.count, sharers.asked.count, sharers.count,
                   is_asking),
          share_of(left.bytes, need.bytes, sharers.needs.bytes, sharers.asked.bytes, sharers.count,
                   is_asking),
          share_of(left.requested_bytes, need.requested_bytes, sharers.needs.requested_bytes,
                   sharers.asked.requested_bytes, sharers.count, is_asking)};
}

// Free parts of what is in use otherwise.
struct Unusable {
  int64_t count = 0;
  int64_t bytes = 0;

  void add(size_t part_bytes) {
    if (part_bytes == 0) return;
    ++count;
    bytes += static_cast<int64_t>(part_bytes);
  }
};

// What is free in a row, as far as it does not fill whole extents; of a plain segment, all of it
// unless it is the whole segment. Found by looking, since hits have no time to count it: peaks and
// totals are of what was seen.
void add_unusable(const View& view, Unusable& sum) {
  const PagedBlock* block = view.first;
  while (block != nullptr) {
    const size_t begin = view.offset_of(*block);
    size_t end = begin;
    for (; block != nullptr && block->is_free(); block = block->next) {
      end += block->bytes;
    }
    if (end == begin) {
      block = block->next;
      continue;
    }
    if (view.is_plain) {
      sum.add(end - begin < view.mapped_bytes ? end - begin : 0);
      continue;
    }
    const Slot& first = view.slots[view.slot_at(begin)];
    const Slot& last = view.slots[view.slot_at(end - 1)];
    const bool is_cut_begin = first.offset < begin;
    const bool is_cut_end = last.end() > end;
    if (&first == &last) {
      sum.add(is_cut_begin || is_cut_end ? end - begin : 0);
      continue;
    }
    sum.add(is_cut_begin ? first.end() - begin : 0);
    sum.add(is_cut_end ? end - last.offset : 0);
  }
}

void set(StatTriple& triple, bool is_small, int64_t value) {
  const int64_t more = value - triple.of(is_small).current;
  if (more > 0) triple.rise(is_small, more);
  if (more < 0) triple.fall(is_small, -more);
}

}  // namespace

void PagedEngine::count_reserved(const Arena& arena, bool is_small, int64_t bytes) {
  MutexLock lock(counting_mutex_);
  ++(bytes > 0 ? stats_.device_allocs : stats_.device_frees);
  for (StatTriple* reserved : {&stats_.reserved_bytes, &arena.pool_usage->reserved_bytes,
                               &arena.stream_usage->reserved_bytes}) {
    if (bytes > 0) reserved->rise(is_small, bytes);
    if (bytes < 0) reserved->fall(is_small, -bytes);
  }
}

void PagedEngine::count_stitch() {
  MutexLock lock(counting_mutex_);
  ++stats_.stitches;
}

// Plain ones only: extents are no segments.
void PagedEngine::count_segments(bool is_small, int64_t more) {
  MutexLock lock(counting_mutex_);
  if (more > 0) stats_.segment.rise(is_small, more);
  if (more < 0) stats_.segment.fall(is_small, -more);
}

// The memory stays reserved; who has it changes.
void PagedEngine::count_lent(const Extent& extent, const Arena& to, bool is_small) {
  const auto bytes = static_cast<int64_t>(extent.bytes);
  MutexLock lock(counting_mutex_);
  const auto move = [&](StatTriple& from, StatTriple& into) {
    from.fall(extent.is_small, bytes);
    into.rise(is_small, bytes);
  };
  if (extent.is_small != is_small) {
    stats_.reserved_bytes.of(extent.is_small).fall(bytes);
    stats_.reserved_bytes.of(is_small).rise(bytes);
  }
  move(extent.arena->pool_usage->reserved_bytes, to.pool_usage->reserved_bytes);
  move(extent.arena->stream_usage->reserved_bytes, to.stream_usage->reserved_bytes);
}

void PagedEngine::settle(const Arena* asking) const {
  MutexLock lock(counting_mutex_);
  settle_locked(asking);
}

void PagedEngine::settle_locked(const Arena* asking) const {
  AllArenas lock(arenas_);
  forget(stats_);
  for (Arena* arena : arenas_) {
    for (Heap& heap : arena->heaps) {
      add({stats_, arena->pool_usage, arena->stream_usage, heap.is_small}, heap.counters);
    }
  }
  for (const auto& [stream, heaps] : retired_) {
    for (const bool is_small : {false, true}) {
      const auto found = stats_.streams.find(stream);
      UsageStats* usage = found == stats_.streams.end() ? nullptr : &found->second;
      add({stats_, nullptr, usage, is_small}, heaps[is_small ? 1 : 0]);
    }
  }
  raise_peaks(stats_);
  highest_allocated_bytes_ = std::max(highest_allocated_bytes_, stats_.allocated_bytes.all.current);
  for (Arena* arena : arenas_) arena->remember_highest();
  for (Arena* arena : arenas_) share_room(*arena, asking);
}

// Each sum has its own sharers: a stream's are mostly one arena.
void PagedEngine::share_room(Arena& arena, const Arena* asking) const {
  Sharers all;
  Sharers of_pool;
  Sharers of_stream;
  std::array<Sharers, 2> of_size;
  for (const Arena* each : arenas_) {
    const bool is_asking = each == asking;
    all.add(each->need(), is_asking);
    if (each->pool_usage == arena.pool_usage) of_pool.add(each->need(), is_asking);
    if (each->stream_usage == arena.stream_usage) of_stream.add(each->need(), is_asking);
    for (const Heap& heap : each->heaps) of_size[heap.is_small ? 1 : 0].add(heap.need(), is_asking);
  }
  const bool is_asking = &arena == asking;
  const Levels need = arena.need();
  Levels together = share_of(room_of(stats_, &StatTriple::all), need, all, is_asking);
  together =
      Levels::lower(together, share_of(room_of(*arena.pool_usage), need, of_pool, is_asking));
  together =
      Levels::lower(together, share_of(room_of(*arena.stream_usage), need, of_stream, is_asking));
  std::array<Levels, 2> own;
  for (const Heap& heap : arena.heaps) {
    const size_t kind = heap.is_small ? 1 : 0;
    const auto part = heap.is_small ? &StatTriple::small_pool : &StatTriple::large_pool;
    own[kind] = Levels::above(heap.counters.net(), share_of(room_of(stats_, part), heap.need(),
                                                            of_size[kind], is_asking));
  }
  arena.set_levels(Levels::above(arena.net(), together), own);
}

int64_t PagedEngine::highest_allocated_bytes() const {
  MutexLock lock(counting_mutex_);
  return highest_allocated_bytes_;
}

AllocatorStats PagedEngine::stats() const {
  MutexLock lock(mutex_);
  return stats_locked();
}

AllocatorStats PagedEngine::stats_locked() const {
  std::array<Unusable, 2> unusable{};
  for (const auto& [id, pool] : pools_) {
    AllArenas arenas(*pool);
    for (const auto& view : pool->views) {
      if (view->is_plain || !pool->is_paused) add_unusable(*view, unusable[view->is_small ? 1 : 0]);
    }
  }
  MutexLock lock(counting_mutex_);
  settle_locked(nullptr);
  for (const bool is_small : {false, true}) {
    set(stats_.inactive_split, is_small, unusable[is_small ? 1 : 0].count);
    set(stats_.inactive_split_bytes, is_small, unusable[is_small ? 1 : 0].bytes);
  }
  return stats_;
}

void PagedEngine::reset_peak_stats() {
  MutexLock lock(counting_mutex_);
  settle_locked(nullptr);
  stats_.reset_peaks();
  {
    AllArenas all(arenas_);
    for (Arena* arena : arenas_) arena->forget_highest();
  }
  settle_locked(nullptr);
}

void PagedEngine::reset_total_stats() {
  MutexLock lock(counting_mutex_);
  settle_locked(nullptr);
  stats_.reset_totals();
  retired_.clear();
  AllArenas all(arenas_);
  for (Arena* arena : arenas_) {
    for (Heap& heap : arena->heaps) heap.counters.reset_totals();
    arena->forget_levels();
    arena->forget_highest();
  }
}

}  // namespace ashlar::paged
