// SPDX-License-Identifier: Apache-2.0
//
// Greedy placement in several orders, each allocation into the lowest hole that takes it; then the
// best order again and again, each time with what stood highest placed first. The same input gives
// the same packing: work is counted, not timed.
//
// Most allocations of a long run are so small that all of them together hardly matter, and finding
// holes for them would take most of the work. Where there are many, they get a region of their own.
#include "analysis/packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "analysis/packing_trees.h"

namespace ashlar {
namespace {

constexpr uint32_t kMostRounds = 30;
// What placing one costs besides looking at its neighbours.
constexpr uint64_t kPlacingWork = 8;
// Fewer than so many are all worth a hole; of more, those are not that together never take more
// than this part of the peak.
constexpr size_t kFew = 10'000;
constexpr double kNegligiblePart = 0.005;

// Hands out addresses in the order of time, as an allocator without a crystal ball: the tightest
// hole there is, or a new end.
class ByTime {
 public:
  explicit ByTime(uint64_t begin) : end_(begin) {}

  uint64_t take(uint64_t bytes) {
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

  void give_back(uint64_t address, uint64_t bytes) {
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

  std::map<uint64_t, uint64_t> by_address_;  // holes, to their bytes; no two touch
  std::set<std::pair<uint64_t, uint64_t>> by_bytes_;
  uint64_t end_;
};

// Every beginning (odd) and end (even) in order, with whose it is; at each time, ends come first.
std::vector<std::pair<uint64_t, uint32_t>> moments_of(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::pair<uint64_t, uint32_t>> moments;
  moments.reserve(2 * lifetimes.size());
  for (uint32_t i = 0; i < lifetimes.size(); ++i) {
    moments.emplace_back(uint64_t{lifetimes[i].begin} * 2 + 1, i);
    moments.emplace_back(uint64_t{lifetimes[i].end} * 2, i);
  }
  std::sort(moments.begin(), moments.end());
  return moments;
}

class Packer {
 public:
  Packer(const std::vector<Lifetime>& given, const PackingOptions& options);

  Packing run();

 private:
  using Order = std::vector<uint32_t>;  // of ranks

  void choose_important();
  void attempt(const Order& order, uint64_t work);
  uint64_t lowest_hole(uint64_t bytes);
  void put(uint32_t rank, uint64_t address);
  void pile_up(const Order& order, size_t first);
  void add_negligible();
  template <typename Key>
  Order ordered_by(Key key) const;
  Order with_highest_first(const Order& order) const;
  bool is_over() const { return work_left_ == 0 || best_.height_bytes <= options_.goal_bytes; }

  const PackingOptions options_;
  std::vector<uint32_t> input_of_rank_;
  std::vector<Lifetime> lifetimes_;  // by rank: in the order in which they begin
  // By rank: how many begin before it ends. Of two that exist together, the rank of the later one
  // lies in [rank, begun_before_) of the earlier.
  std::vector<uint32_t> begun_before_;
  Order important_;                // the ranks that attempts are about
  uint64_t negligible_bytes_ = 0;  // up to so large the others are
  Neighbours neighbours_;
  Skyline skyline_;
  std::vector<uint64_t> addresses_;  // by rank, of the current attempt
  std::vector<uint32_t> found_;
  std::vector<std::pair<uint64_t, uint64_t>> taken_;
  uint64_t height_bytes_ = 0;
  uint64_t work_left_;

  Packing best_;
  Order best_order_;
  std::vector<uint64_t> best_addresses_;  // by rank
};

Packer::Packer(const std::vector<Lifetime>& given, const PackingOptions& options)
    : options_(options),
      input_of_rank_(given.size()),
      neighbours_(given.size()),
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
  attempt(ordered_by(bytes), work_left_);  // on recorded runs, nearly always the best
  if (!is_over()) attempt(ordered_by(area), work_left_ / 2);
  if (!is_over()) attempt(ordered_by(length), work_left_ / 2);

  Order order = best_order_;
  addresses_ = best_addresses_;
  height_bytes_ = best_.height_bytes;
  for (uint32_t round = 0; round < kMostRounds && !is_over(); ++round) {
    Order next = with_highest_first(order);
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

// The peak of those that are not larger than `largest_bytes`. `moments`: every beginning and end in
// order, as rank and whether it begins.
uint64_t peak_bytes(const std::vector<Lifetime>& lifetimes, uint64_t largest_bytes,
                    const std::vector<std::pair<uint32_t, bool>>& moments) {
  uint64_t now = 0;
  uint64_t peak = 0;
  for (const auto& [rank, begins] : moments) {
    const uint64_t bytes = lifetimes[rank].bytes;
    if (bytes > largest_bytes) continue;
    now += begins ? bytes : -bytes;
    peak = std::max(peak, now);
  }
  return peak;
}

void Packer::choose_important() {
  if (lifetimes_.size() > kFew) {
    std::vector<std::pair<uint32_t, bool>> moments;
    for (const auto& [moment, rank] : moments_of(lifetimes_)) {
      moments.emplace_back(rank, moment % 2 == 1);
    }
    const auto most = static_cast<uint64_t>(
        kNegligiblePart * static_cast<double>(peak_bytes(lifetimes_, UINT64_MAX, moments)));
    for (uint64_t bytes = 512; bytes <= most; bytes *= 2) {
      if (peak_bytes(lifetimes_, bytes, moments) > most) break;
      negligible_bytes_ = bytes;
    }
  }
  for (uint32_t rank = 0; rank < lifetimes_.size(); ++rank) {
    if (lifetimes_[rank].bytes > negligible_bytes_) important_.push_back(rank);
  }
}

void Packer::attempt(const Order& order, uint64_t work) {
  neighbours_.clear();
  height_bytes_ = 0;
  uint64_t left = work;
  size_t placed = 0;
  for (; placed < order.size() && left > 0; ++placed) {
    const uint32_t rank = order[placed];
    const Lifetime& own = lifetimes_[rank];
    if (!neighbours_.find(begun_before_[rank], own.begin, left, found_)) break;
    left -= std::min<uint64_t>(left, found_.size() + kPlacingWork);
    put(rank, lowest_hole(own.bytes));
    neighbours_.place(rank, own.end);
  }
  const size_t into_holes_count = placed;
  if (placed < order.size()) pile_up(order, placed);

  const uint64_t piled_work = (order.size() - into_holes_count) * kPlacingWork;
  work_left_ -= std::min(work_left_, work - left + piled_work);
  ++best_.attempt_count;
  if (best_.attempt_count > 1 && height_bytes_ >= best_.height_bytes) return;
  best_.height_bytes = height_bytes_;
  best_.into_holes_count = into_holes_count;
  best_order_ = order;
  best_addresses_ = addresses_;
}

// Between the neighbours in `found_`, or above them.
uint64_t Packer::lowest_hole(uint64_t bytes) {
  taken_.clear();
  for (uint32_t rank : found_) {
    taken_.emplace_back(addresses_[rank], addresses_[rank] + lifetimes_[rank].bytes);
  }
  std::sort(taken_.begin(), taken_.end());
  uint64_t address = 0;
  for (const auto& [begin, end] : taken_) {
    if (begin > address && begin - address >= bytes) break;
    address = std::max(address, end);
  }
  return address;
}

void Packer::put(uint32_t rank, uint64_t address) {
  addresses_[rank] = address;
  height_bytes_ = std::max(height_bytes_, address + lifetimes_[rank].bytes);
}

// The rest of the order, from `first` on, each above all that exists during its life.
void Packer::pile_up(const Order& order, size_t first) {
  skyline_.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t rank = order[i];
    if (i >= first) put(rank, skyline_.highest(rank, begun_before_[rank]));
    const uint64_t top = addresses_[rank] + lifetimes_[rank].bytes;
    skyline_.raise(rank, begun_before_[rank], top);
  }
}

// Above all others, in a region of their own.
void Packer::add_negligible() {
  if (important_.size() == lifetimes_.size()) return;
  ByTime region(best_.height_bytes);
  for (const auto& [moment, rank] : moments_of(lifetimes_)) {
    const uint64_t bytes = lifetimes_[rank].bytes;
    if (bytes > negligible_bytes_) continue;
    if (moment % 2 == 1) {
      best_addresses_[rank] = region.take(bytes);
    } else {
      region.give_back(best_addresses_[rank], bytes);
    }
  }
  best_.height_bytes = region.end();
}

// The largest key first; among equals the earliest.
template <typename Key>
Packer::Order Packer::ordered_by(Key key) const {
  Order order = important_;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    return key(lifetimes_[left]) > key(lifetimes_[right]);
  });
  return order;
}

// What made the last attempt as high as it was goes first, the rest keeps its order.
Packer::Order Packer::with_highest_first(const Order& order) const {
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

bool is_packed(const std::vector<Lifetime>& lifetimes, const Packing& packing) {
  if (packing.addresses.size() != lifetimes.size()) return false;
  std::map<uint64_t, uint64_t> taken;  // first address to the first one behind it
  uint64_t height_bytes = 0;
  for (const auto& [moment, i] : moments_of(lifetimes)) {
    const uint64_t begin = packing.addresses[i];
    const uint64_t end = begin + lifetimes[i].bytes;
    if (moment % 2 == 0) {
      taken.erase(begin);
      continue;
    }
    const auto above = taken.lower_bound(begin);
    if (above != taken.end() && above->first < end) return false;
    if (above != taken.begin() && std::prev(above)->second > begin) return false;
    taken.emplace_hint(above, begin, end);
    height_bytes = std::max(height_bytes, end);
  }
  return height_bytes == packing.height_bytes;
}

}  // namespace ashlar
