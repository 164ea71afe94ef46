// SPDX-License-Identifier: Apache-2.0
//
// Places the allocations by first fit in several orders. Then repeats the best order, each time
// with the topmost allocations moved to the front. The result is deterministic, because the budget
// is a count of work, not a time.
//
// In long runs, most allocations are so small that they hardly contribute to the peak, but placing
// them would take most of the work. If the run has many allocations, the small ones are placed in a
// separate region.
#include "analysis/packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analysis/packing_trees.h"

namespace ashlar {
namespace {

constexpr uint32_t kMaxRounds = 30;
// Work units for one placement, besides one unit per overlapping allocation.
constexpr uint64_t kPlacementWork = 8;
constexpr size_t kPackingPollPeriod = 256;  // placements between polls of keep_going
// Up to kFewAllocations, all allocations are placed individually. Beyond that count, the smallest
// allocations are negligible, as long as their sum never exceeds kNegligibleFraction of the peak.
constexpr size_t kFewAllocations = 10'000;
constexpr double kNegligibleFraction = 0.005;

// An online best-fit allocator that grows at its end when no hole fits.
class BestFitRegion {
 public:
  explicit BestFitRegion(uint64_t begin) : end_(begin) {}

  uint64_t allocate(uint64_t bytes) {
    const auto hole = by_bytes_.lower_bound({bytes, 0});
    if (hole == by_bytes_.end()) {
      end_ += bytes;
      return end_ - bytes;
    }
    const auto [hole_bytes, address] = *hole;
    remove(address, hole_bytes);
    if (hole_bytes > bytes) add(address + bytes, hole_bytes - bytes);
    return address;
  }

  void free(uint64_t address, uint64_t bytes) {
    const auto above = by_address_.lower_bound(address);
    if (above != by_address_.end() && above->first == address + bytes) {
      bytes += above->second;
      remove(above->first, above->second);
    }
    const auto next = by_address_.lower_bound(address);
    if (next != by_address_.begin()) {
      const auto [below, below_bytes] = *std::prev(next);
      if (below + below_bytes == address) {
        remove(below, below_bytes);
        address = below;
        bytes += below_bytes;
      }
    }
    add(address, bytes);
  }

  uint64_t end() const { return end_; }

 private:
  void add(uint64_t address, uint64_t bytes) {
    by_address_.emplace(address, bytes);
    by_bytes_.emplace(bytes, address);
  }
  void remove(uint64_t address, uint64_t bytes) {
    by_address_.erase(address);
    by_bytes_.erase({bytes, address});
  }

  std::map<uint64_t, uint64_t> by_address_;  // sizes of the holes; holes are not adjacent
  std::set<std::pair<uint64_t, uint64_t>> by_bytes_;
  uint64_t end_;
};

// Returns the begin and end events of all lifetimes in time order, as pairs of a key and the index
// of the lifetime. Keys are 2 * begin + 1 and 2 * end, so that at equal times ends come first.
std::vector<std::pair<uint64_t, uint32_t>> sorted_events(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::pair<uint64_t, uint32_t>> events;
  events.reserve(2 * lifetimes.size());
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    events.emplace_back(uint64_t{lifetimes[i].begin} * 2 + 1, i);
    events.emplace_back(uint64_t{lifetimes[i].end} * 2, i);
  }
  std::sort(events.begin(), events.end());
  return events;
}

class Packer {
 public:
  Packer(const std::vector<Lifetime>& given, const PackingOptions& options);

  Packing run();

 private:
  using Order = std::vector<uint32_t>;  // a list of ranks

  void choose_important();
  void attempt(const Order& order, uint64_t work);
  uint64_t lowest_gap(uint64_t bytes);
  void place_at(uint32_t rank, uint64_t address);
  void place_on_top(const Order& order, size_t first);
  void add_negligible();
  template <typename Key>
  Order ordered_by(Key key) const;
  Order with_topmost_first(const Order& order) const;
  bool is_cancelled() const { return options_.keep_going && !options_.keep_going(); }
  bool is_done() const { return work_left_ == 0 || best_.height_bytes <= options_.goal_bytes; }

  const PackingOptions options_;
  std::vector<uint32_t> input_of_rank_;
  std::vector<Lifetime> lifetimes_;  // sorted by begin; a lifetime's index here is its rank
  // For each rank, the number of lifetimes that begin before the lifetime of this rank ends. If a
  // later lifetime overlaps the lifetime of rank r, its rank lies in [r, begun_before_[r]).
  std::vector<uint32_t> begun_before_;
  Order important_;                // ranks that are placed individually
  uint64_t negligible_bytes_ = 0;  // lifetimes of at most this size are negligible
  OverlapIndex overlaps_;
  Skyline skyline_;
  std::vector<uint64_t> addresses_;  // addresses in the current attempt, indexed by rank
  std::vector<uint32_t> overlapping_;
  std::vector<std::pair<uint64_t, uint64_t>> occupied_ranges_;
  uint64_t height_bytes_ = 0;
  uint64_t work_left_;

  Packing best_;
  Order best_order_;
  std::vector<uint64_t> best_addresses_;  // indexed by rank
};

Packer::Packer(const std::vector<Lifetime>& given, const PackingOptions& options)
    : options_(options),
      input_of_rank_(given.size()),
      overlaps_(given.size()),
      skyline_(given.size()),
      addresses_(given.size()),
      work_left_(options.work_limit) {
  std::iota(input_of_rank_.begin(), input_of_rank_.end(), 0U);
  std::stable_sort(
      input_of_rank_.begin(), input_of_rank_.end(),
      [&](uint32_t left, uint32_t right) { return given[left].begin < given[right].begin; });
  for (uint32_t input : input_of_rank_) lifetimes_.push_back(given[input]);
  for (const Lifetime& lifetime : lifetimes_) {
    const auto first =
        std::lower_bound(lifetimes_.begin(), lifetimes_.end(), lifetime.end,
                         [](const Lifetime& each, uint32_t time) { return each.begin < time; });
    begun_before_.push_back(static_cast<uint32_t>(first - lifetimes_.begin()));
  }
}

Packing Packer::run() {
  const auto length = [](const Lifetime& each) { return double(each.end - each.begin); };
  const auto bytes = [](const Lifetime& each) { return double(each.bytes); };
  const auto area = [&](const Lifetime& each) { return length(each) * bytes(each); };

  choose_important();
  attempt(ordered_by(bytes), work_left_);  // the best order on nearly all recorded runs
  if (!is_done()) attempt(ordered_by(area), work_left_ / 2);
  if (!is_done()) attempt(ordered_by(length), work_left_ / 2);

  Order order = best_order_;
  addresses_ = best_addresses_;
  height_bytes_ = best_.height_bytes;
  for (uint32_t round = 0; round < kMaxRounds && !is_done(); ++round) {
    Order next = with_topmost_first(order);
    if (next == order) break;
    order = std::move(next);
    attempt(order, work_left_);
  }
  add_negligible();

  best_.addresses.resize(lifetimes_.size());
  for (size_t rank = 0; rank < best_addresses_.size(); ++rank) {
    best_.addresses[input_of_rank_[rank]] = best_addresses_[rank];
  }
  return std::move(best_);
}

// Returns the peak of the bytes in use, counting only lifetimes of at most `largest_bytes`.
// `events` has the begin and end events of all lifetimes in time order: pairs of a rank and whether
// its lifetime begins.
uint64_t peak_bytes(const std::vector<Lifetime>& lifetimes, uint64_t largest_bytes,
                    const std::vector<std::pair<uint32_t, bool>>& events) {
  uint64_t now = 0;
  uint64_t peak = 0;
  for (const auto& [rank, begins] : events) {
    const uint64_t bytes = lifetimes[rank].bytes;
    if (bytes > largest_bytes) continue;
    now += begins ? bytes : -bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

void Packer::choose_important() {
  if (lifetimes_.size() > kFewAllocations) {
    std::vector<std::pair<uint32_t, bool>> events;
    for (const auto& [event_key, rank] : sorted_events(lifetimes_)) {
      events.emplace_back(rank, event_key % 2 == 1);
    }
    const auto most = static_cast<uint64_t>(
        kNegligibleFraction * static_cast<double>(peak_bytes(lifetimes_, UINT64_MAX, events)));
    for (uint64_t bytes = 512; bytes <= most; bytes *= 2) {
      if (peak_bytes(lifetimes_, bytes, events) > most) break;
      negligible_bytes_ = bytes;
    }
  }
  for (uint32_t rank = 0; rank < lifetimes_.size(); ++rank) {
    if (lifetimes_[rank].bytes > negligible_bytes_) important_.push_back(rank);
  }
}

void Packer::attempt(const Order& order, uint64_t work) {
  overlaps_.clear();
  height_bytes_ = 0;
  uint64_t left = work;
  size_t placed = 0;
  for (; placed < order.size() && left > 0; ++placed) {
    if (placed % kPackingPollPeriod == 0 && is_cancelled()) {
      work_left_ = 0;
      break;
    }
    const uint32_t rank = order[placed];
    const Lifetime& lifetime = lifetimes_[rank];
    if (!overlaps_.find(begun_before_[rank], lifetime.begin, left, overlapping_)) break;
    left -= std::min<uint64_t>(left, overlapping_.size() + kPlacementWork);
    place_at(rank, lowest_gap(lifetime.bytes));
    overlaps_.place(rank, lifetime.end);
  }
  const size_t in_gaps_count = placed;
  if (placed < order.size()) place_on_top(order, placed);

  const uint64_t on_top_work = (order.size() - in_gaps_count) * kPlacementWork;
  work_left_ -= std::min(work_left_, work - left + on_top_work);
  ++best_.attempt_count;
  if (best_.attempt_count > 1 && height_bytes_ >= best_.height_bytes) return;
  best_.height_bytes = height_bytes_;
  best_.in_gaps_count = in_gaps_count;
  best_order_ = order;
  best_addresses_ = addresses_;
}

// Returns the address of the lowest gap of at least `bytes` between the allocations in
// `overlapping_`. If there is no such gap, returns the end of the highest of these allocations.
uint64_t Packer::lowest_gap(uint64_t bytes) {
  occupied_ranges_.clear();
  for (uint32_t rank : overlapping_) {
    occupied_ranges_.emplace_back(addresses_[rank], addresses_[rank] + lifetimes_[rank].bytes);
  }
  std::sort(occupied_ranges_.begin(), occupied_ranges_.end());
  uint64_t address = 0;
  for (const auto& [begin, end] : occupied_ranges_) {
    if (begin > address && begin - address >= bytes) break;
    address = std::max(address, end);
  }
  return address;
}

void Packer::place_at(uint32_t rank, uint64_t address) {
  addresses_[rank] = address;
  height_bytes_ = std::max(height_bytes_, address + lifetimes_[rank].bytes);
}

// Places the allocations from order[first] on without using gaps: each is placed above all placed
// allocations that overlap its lifetime.
void Packer::place_on_top(const Order& order, size_t first) {
  skyline_.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t rank = order[i];
    if (i >= first) place_at(rank, skyline_.highest(rank, begun_before_[rank]));
    const uint64_t top = addresses_[rank] + lifetimes_[rank].bytes;
    skyline_.raise(rank, begun_before_[rank], top);
  }
}

// Places the negligible allocations in a separate region on top.
void Packer::add_negligible() {
  if (important_.size() == lifetimes_.size()) return;
  BestFitRegion region(best_.height_bytes);
  for (const auto& [event_key, rank] : sorted_events(lifetimes_)) {
    const uint64_t bytes = lifetimes_[rank].bytes;
    if (bytes > negligible_bytes_) continue;
    if (event_key % 2 == 1) {
      best_addresses_[rank] = region.allocate(bytes);
    } else {
      region.free(best_addresses_[rank], bytes);
    }
  }
  best_.height_bytes = region.end();
}

// Returns the important lifetimes, sorted by key (largest first), then by rank.
template <typename Key>
Packer::Order Packer::ordered_by(Key key) const {
  Order order = important_;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    return key(lifetimes_[left]) > key(lifetimes_[right]);
  });
  return order;
}

// Returns the order with the allocations that determined the height of the last attempt moved to
// the front.
Packer::Order Packer::with_topmost_first(const Order& order) const {
  Order next = order;
  std::stable_partition(next.begin(), next.end(), [&](uint32_t rank) {
    return addresses_[rank] + lifetimes_[rank].bytes == height_bytes_;
  });
  return next;
}

}  // namespace

Packing pack(const std::vector<Lifetime>& lifetimes, const PackingOptions& options) {
  return Packer(lifetimes, options).run();
}

bool is_valid_packing(const std::vector<Lifetime>& lifetimes, const Packing& packing) {
  if (packing.addresses.size() != lifetimes.size()) return false;
  std::map<uint64_t, uint64_t> occupied;  // the end of each range, keyed by its begin
  uint64_t height_bytes = 0;
  for (const auto& [event_key, i] : sorted_events(lifetimes)) {
    const uint64_t begin = packing.addresses[i];
    const uint64_t end = begin + lifetimes[i].bytes;
    if (event_key % 2 == 0) {
      occupied.erase(begin);
      continue;
    }
    const auto above = occupied.lower_bound(begin);
    if (above != occupied.end() && above->first < end) return false;
    if (above != occupied.begin() && std::prev(above)->second > begin) return false;
    occupied.emplace_hint(above, begin, end);
    height_bytes = std::max(height_bytes, end);
  }
  return height_bytes == packing.height_bytes;
}

}  // namespace ashlar
