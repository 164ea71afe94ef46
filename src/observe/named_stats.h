// SPDX-License-Identifier: Apache-2.0
//
// Visitors that reset statistics, or list them by name. Each statistics type has one function that
// passes every quantity with its public name to a visitor. Visitors take no locks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ashlar/host_stats.h"
#include "ashlar/stats.h"

namespace ashlar {

// A value that is listed but never reset, such as a setting.
struct SettingStat {
  int64_t value = 0;
};

// Resets peaks: the peaks of gauges to the current values, the extremes of durations to none.
// Counters have no peak.
struct ResetPeaksVisitor {
  void operator()(std::string_view /*name*/, auto& quantity) const { quantity.reset_peak(); }
  void operator()(std::string_view /*name*/, int64_t& /*counter*/) const {}
  void operator()(std::string_view /*name*/, SettingStat /*given*/) const {}
};

// Resets totals and counters to 0.
struct ResetTotalsVisitor {
  void operator()(std::string_view /*name*/, auto& quantity) const { quantity.reset_totals(); }
  void operator()(std::string_view /*name*/, int64_t& counter) const { counter = 0; }
  void operator()(std::string_view /*name*/, SettingStat /*given*/) const {}
};

// Lists values under PyTorch's names, such as "allocation.all.peak". Times are in microseconds.
struct FlattenVisitor {
  std::vector<std::pair<std::string, int64_t>>& flat;

  void operator()(const std::string& name, const Stat& stat) const {
    flat.emplace_back(name + ".current", stat.current);
    flat.emplace_back(name + ".peak", stat.peak);
    flat.emplace_back(name + ".allocated", stat.increased);
    flat.emplace_back(name + ".freed", stat.decreased);
  }
  void operator()(const std::string& name, const StatTriple& triple) const {
    (*this)(name + ".all", triple.all);
    (*this)(name + ".small_pool", triple.small_pool);
    (*this)(name + ".large_pool", triple.large_pool);
  }
  void operator()(const std::string& name, const DurationStat& time) const {
    flat.emplace_back(name + ".total", time.total_ns / 1000);
    flat.emplace_back(name + ".max", time.max_ns / 1000);
    flat.emplace_back(name + ".min", time.min_ns / 1000);
    flat.emplace_back(name + ".count", time.count);
    flat.emplace_back(name + ".avg", time.count == 0 ? 0 : time.total_ns / time.count / 1000);
  }
  void operator()(const std::string& name, int64_t counter) const {
    flat.emplace_back(name, counter);
  }
  void operator()(const std::string& name, SettingStat setting) const {
    flat.emplace_back(name, setting.value);
  }
};

}  // namespace ashlar
