// SPDX-License-Identifier: Apache-2.0
//
// Draws settings and operations from a seed, and formats them.
#include <array>
#include <cmath>

#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "operations.h"

namespace ashlar::model {
namespace {

// Draws a request size: small, a few MiB, or large enough for its own segment; often a round
// number.
uint64_t draw_bytes(Random& random) {
  const double top = random.below(4) == 0 ? 26 : 23;
  const auto bytes = static_cast<uint64_t>(std::exp2(5 + (top - 5) * random.fraction()));
  switch (random.below(4)) {
    case 0: return (bytes >> 20 << 20) + 1 + random.below(2) * (kMiB - 1);
    case 1: return bytes / 512 * 512 + 512;
    default: return bytes;
  }
}

struct Weight {
  OperationKind kind;
  uint64_t weight;
};

constexpr std::array<Weight, 13> kWeights = {{{OperationKind::kAllocate, 440},
                                              {OperationKind::kFree, 380},
                                              {OperationKind::kUse, 80},
                                              {OperationKind::kFinish, 35},
                                              {OperationKind::kTrim, 3},
                                              {OperationKind::kFraction, 2},
                                              {OperationKind::kRoute, 12},
                                              {OperationKind::kUnroute, 12},
                                              {OperationKind::kDrop, 6},
                                              {OperationKind::kCapture, 6},
                                              {OperationKind::kWork, 12},
                                              {OperationKind::kOrder, 9},
                                              {OperationKind::kEnd, 3}}};

OperationKind draw_kind(Random& random) {
  uint64_t point = random.below(1000);
  for (const Weight& each : kWeights) {
    if (point < each.weight) return each.kind;
    point -= each.weight;
  }
  return OperationKind::kAllocate;
}

}  // namespace

ClassicSetting draw_classic_setting(uint64_t seed) {
  Random random(seed);
  ClassicSetting setting;
  AllocatorOptions& options = setting.options;
  setting.capacity_bytes = (size_t{128} << random.below(3)) * kMiB;
  options.pytorch_compatible = random.below(2) == 0;
  options.expandable_segments = random.below(5) < 2;
  options.capture_stream_reuse = random.below(2) == 0;
  options.large_segment_bytes = std::array{20, 20, 12, 32}[random.below(4)] * kMiB;
  if (random.below(3) == 0) {
    options.max_split_bytes = options.large_segment_bytes + random.below(3) * 7 * kMiB;
    if (random.below(2) == 0) {
      options.max_non_split_rounding_bytes = options.large_segment_bytes + 8 * kMiB;
    }
  }
  if (random.below(3) == 0) {
    for (uint32_t& divisions : options.roundup_power2_divisions) {
      divisions = uint32_t{1} << random.below(4);
    }
  }
  if (random.below(3) == 0) {
    options.memory_fraction = 0.8;
    options.garbage_collection_threshold = 0.5;
  }
  return setting;
}

std::vector<Operation> draw_operations(uint64_t seed, size_t count) {
  Random random(~seed);
  std::vector<Operation> operations;
  operations.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const OperationKind kind = draw_kind(random);
    const uint64_t number =
        kind == OperationKind::kAllocate ? draw_bytes(random) : random.below(1 << 20);
    operations.push_back({kind, number, random.below(4), i + 1, std::nullopt});
  }
  return operations;
}

std::string to_text(const ClassicSetting& setting) {
  const AllocatorOptions& options = setting.options;
  std::string line =
      text("capacity ", setting.capacity_bytes >> 20, " MiB, large segments ",
           options.large_segment_bytes >> 20, " MiB, compatible ", options.pytorch_compatible,
           ", expandable ", options.expandable_segments, ", reuse within captures ",
           options.capture_stream_reuse, ", fraction ", options.memory_fraction, ", collect above ",
           options.garbage_collection_threshold, ", max split ",
           options.max_split_bytes.value_or(0) >> 20, " MiB, rounding ",
           options.max_non_split_rounding_bytes.value_or(0) >> 20, " MiB, divisions");
  for (uint32_t divisions : options.roundup_power2_divisions) line += text(" ", divisions);
  return line;
}

std::string to_text(const std::vector<Operation>& operations) {
  constexpr std::array kNames = {"allocate", "free",  "use",     "finish", "trim",
                                 "fraction", "route", "unroute", "drop",   "capture",
                                 "work",     "order", "end"};
  std::string lines;
  for (const Operation& each : operations) {
    lines += text("  ", each.id, ": ", kNames[static_cast<size_t>(each.kind)], " ");
    lines += each.target ? text("block of ", *each.target) : text(each.number);
    lines += text(", stream ", each.which, "\n");
  }
  return lines;
}

}  // namespace ashlar::model
