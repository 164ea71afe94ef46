// SPDX-License-Identifier: Apache-2.0
//
// Measures both all-reduce algorithms at each size, one after the other.
#include "symm/collectives/thresholds.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "base/units.h"
#include "symm/collectives/reductions.h"

namespace ashlar::symm {
namespace {

constexpr size_t kMinMeasuredBytes = kKiB;
constexpr size_t kMaxMeasuredBytes = 4 * kMiB;

using Algorithm = Status (*)(const CollectiveContext&, const AllReduce&, const Limits&);

// Returns the time of one all-reduce in nanoseconds. Each rank writes its input first, as in real
// use. Without that, data that the rank read in the previous round would still be in its cache,
// which favours the two-shot algorithm.
Result<uint64_t> time_all_reduce(Algorithm run, const CollectiveContext& context,
                                 const AllReduce& request, const Limits& limits) {
  const size_t bytes = static_cast<size_t>(request.count) * sizeof(float);
  std::memset(request.range.address(context.rank()), 0, bytes);
  AllReduce barrier = request;  // an all-reduce of no elements is a barrier
  barrier.count = 0;
  if (Status failed = one_shot_all_reduce(context, barrier, limits); !failed.ok()) return failed;
  const auto begin = std::chrono::steady_clock::now();
  if (Status failed = run(context, request, limits); !failed.ok()) return failed;
  const auto taken = std::chrono::steady_clock::now() - begin;
  return static_cast<uint64_t>(std::chrono::nanoseconds(taken).count());
}

// Returns the sums of the times over all ranks, so that all ranks choose the same threshold.
Result<std::vector<uint64_t>> sum_over_ranks(const CollectiveContext& context,
                                             const SymmetricRange& range,
                                             const std::vector<uint64_t>& own,
                                             const Limits& limits) {
  const size_t bytes = own.size() * sizeof(uint64_t);
  std::memcpy(range.address(context.rank()), own.data(), bytes);
  std::vector<uint64_t> sums(own.size());
  const AllReduce request{.range = range,
                          .count = static_cast<int64_t>(own.size()),
                          .reduction = {ElementType::kU64, ReduceOp::kSum},
                          .out = reinterpret_cast<std::byte*>(sums.data())};
  if (Status failed = one_shot_all_reduce(context, request, limits); !failed.ok()) return failed;
  return sums;
}

}  // namespace

std::string Thresholds::to_string() const {
  std::string table = "all-reduce     one-shot us   two-shot us\n";
  for (const Measurement& measurement : measurements) {
    std::string size = format_bytes(measurement.bytes);
    size.resize(std::max<size_t>(size.size(), 12), ' ');
    table += text(size, "  ", measurement.one_shot_us, "  ", measurement.two_shot_us, "\n");
  }
  return table + text("one-shot up to ", format_bytes(one_shot_bytes));
}

Result<Thresholds> measure_thresholds(const CollectiveContext& context, const SymmetricRange& range,
                                      int rounds, const Limits& limits) {
  if (Status wrong = check_range(context, range, 4 * kKiB, sizeof(uint64_t)); !wrong.ok()) {
    return wrong;
  }
  const size_t most =
      std::min(kMaxMeasuredBytes, range.buffer_bytes - static_cast<size_t>(range.offset_bytes));
  Thresholds found;
  std::vector<uint64_t> best;
  for (size_t bytes = kMinMeasuredBytes; bytes <= most; bytes *= 2) {
    found.measurements.push_back({.bytes = bytes});
    const AllReduce request{.range = range, .count = static_cast<int64_t>(bytes / sizeof(float))};
    for (const Algorithm run : {one_shot_all_reduce, two_shot_all_reduce}) {
      best.push_back(std::numeric_limits<uint32_t>::max());
      for (int round = 0; round < std::max(1, rounds); ++round) {
        const Result<uint64_t> taken = time_all_reduce(run, context, request, limits);
        if (!taken.ok()) return taken.status();
        best.back() = std::min(best.back(), *taken);
      }
    }
  }
  const Result<std::vector<uint64_t>> sums = sum_over_ranks(context, range, best, limits);
  if (!sums.ok()) return sums.status();
  const double ns_sum_per_us = 1e3 * context.world_size();
  found.one_shot_bytes = 0;
  for (size_t i = 0; i < found.measurements.size(); ++i) {
    Thresholds::Measurement& measurement = found.measurements[i];
    measurement.one_shot_us = static_cast<double>((*sums)[2 * i]) / ns_sum_per_us;
    measurement.two_shot_us = static_cast<double>((*sums)[2 * i + 1]) / ns_sum_per_us;
    // The threshold is the largest size at which one-shot is not slower. Noise at smaller sizes is
    // ignored, which costs little.
    if ((*sums)[2 * i] <= (*sums)[2 * i + 1]) found.one_shot_bytes = measurement.bytes;
  }
  return found;
}

}  // namespace ashlar::symm
