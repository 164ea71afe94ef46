// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests on a simulated machine.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "ashlar/sim.h"
#include "base/units.h"

namespace ashlar::sim {

inline std::unique_ptr<Machine> make_machine(const Options& options) {
  Result<std::unique_ptr<Machine>> made = Machine::try_create(options);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return made.ok() ? *std::move(made) : nullptr;
}

inline Options small_options() {
  Options options;
  options.capacity_bytes = kGiB;
  return options;
}

inline constexpr DeviceIndex kFirst{0};
inline constexpr DeviceIndex kSecond{1};

struct MappedRange {
  AddressRange range;
  std::vector<ExtentId> extents;
};

// Reserves `count` granules and maps one accessible extent in each.
inline MappedRange map_extents(Device& device, size_t count) {
  const size_t granule = device.properties().granularity_bytes;
  MappedRange made;
  made.range = {*device.reserve(count * granule), count * granule};
  for (size_t i = 0; i < count; ++i) {
    made.extents.push_back(*device.create(granule));
    EXPECT_TRUE(device.map(made.range.begin + i * granule, made.extents.back()).ok());
  }
  EXPECT_TRUE(device.set_access(made.range, device.properties().index, Access::kReadWrite).ok());
  return made;
}

}  // namespace ashlar::sim
