// SPDX-License-Identifier: Apache-2.0
//
// Replays recorded PyTorch runs. With the recorded settings, a replay must allocate the same
// segments at the same entries, place the same blocks at the same addresses, and have the same
// statistics. Predictions under other settings are compared with PyTorch's own results
// (traces/pytorch_truth.tsv, from torch.cuda.memory_stats).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "analysis/infer_pools.h"
#include "analysis/replay/address_predictor.h"
#include "analysis/replay/replay.h"
#include "base/units.h"
#include "config/allocator_options.h"
#include "config/snapshot_settings.h"
#include "files/read_snapshot.h"

namespace ashlar {
namespace {

constexpr size_t kRecordedCapacity = 150109880320;  // of the H200 in the traces
const std::string kTraces = std::string(ASHLAR_GOLDEN_FOLDER) + "/traces/";

// A row of pytorch_truth.tsv, by column name.
using Row = std::map<std::string, std::string>;

std::vector<Row> read_truth() {
  std::ifstream file(kTraces + "pytorch_truth.tsv");
  const auto cells = [](const std::string& line) {
    std::vector<std::string> found;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, '\t');) found.push_back(cell);
    return found;
  };
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> columns = cells(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = cells(line);
    Row row;
    for (size_t i = 0; i < values.size(); ++i) row[columns.at(i)] = values[i];
    rows.push_back(row);
  }
  return rows;
}

Row pytorch_row(const std::string& workload, const std::string& settings) {
  for (const Row& row : read_truth()) {
    if (row.at("workload") == workload && row.at("settings") == settings) return row;
  }
  ADD_FAILURE() << "no row for " << workload << " " << settings;
  return {};
}

// Replays a trace under `settings`; null means the recorded settings.
ReplayResult replay_of(const std::string& name, const char* settings,
                       std::optional<size_t> cap_bytes = {}) {
  Result<Snapshot> snapshot = read_snapshot(kTraces + name + ".pickle.xz");
  if (!snapshot.ok()) {
    ADD_FAILURE() << snapshot.status().to_string();
    return {};
  }
  ReplayOptions options;
  options.recorded = options_of(snapshot->settings).options;
  options.allocator = options.recorded;
  if (settings != nullptr) {
    AllocatorOptions compatible;
    compatible.engine = EngineKind::kClassic;
    compatible.pytorch_compatible = true;
    options.allocator = *parse_allocator_options(settings, compatible);
  }
  options.capacity_bytes = kRecordedCapacity;
  options.cap_bytes = cap_bytes;
  options.inspect_after = 1;
  infer_pools(*snapshot, options.device);
  const Allocations allocations = find_allocations(*snapshot, options.device);
  Result<ReplayResult> result = replay(*snapshot, allocations, options);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *std::move(result) : ReplayResult();
}

struct NamedStat {
  const char* column;
  int64_t value;
};

std::vector<NamedStat> main_stats_of(const AllocatorStats& stats) {
  return {{"allocated_bytes.all.peak", stats.allocated_bytes.all.peak},
          {"reserved_bytes.all.peak", stats.reserved_bytes.all.peak},
          {"requested_bytes.all.peak", stats.requested_bytes.all.peak},
          {"active_bytes.all.peak", stats.active_bytes.all.peak},
          {"inactive_split_bytes.all.peak", stats.inactive_split_bytes.all.peak},
          {"reserved_bytes.all.current", stats.reserved_bytes.all.current},
          {"segment.all.peak", stats.segment.all.peak},
          {"num_alloc_retries", stats.alloc_retries},
          {"num_device_alloc", stats.device_allocs},
          {"num_device_free", stats.device_frees}};
}

void expect_exact(const ReplayResult& result, const Row& truth) {
  for (const NamedStat& stat : main_stats_of(result.stats)) {
    EXPECT_EQ(stat.value, std::stoll(truth.at(stat.column))) << stat.column;
  }
}

struct RecordedRun {
  const char* name;
  const char* workload;
  const char* settings;
  std::optional<size_t> cap_bytes{};
};

class ReplayAsRecorded : public ::testing::TestWithParam<RecordedRun> {};

TEST_P(ReplayAsRecorded, ReproducesEveryEventAndNumber) {
  const ReplayResult result = replay_of(GetParam().name, nullptr, GetParam().cap_bytes);
  ASSERT_TRUE(result.fidelity.has_value());
  EXPECT_FALSE(result.fidelity->first_divergence)
      << describe(*result.fidelity->first_divergence->recorded);
  EXPECT_EQ(result.fidelity->matched_count, result.fidelity->recorded_count);
  EXPECT_GT(result.fidelity->recorded_count, 0U);
  EXPECT_TRUE(result.ooms.empty());
  expect_exact(result, pytorch_row(GetParam().workload, GetParam().settings));
  // A recording does not contain the start addresses of expandable segments, so no block of a
  // replay has the recorded address.
  const bool is_expandable = GetParam().settings != std::string("default");
  EXPECT_EQ(result.same_address_count, is_expandable ? 0 : result.alloc_count);
}

INSTANTIATE_TEST_SUITE_P(
    Traces, ReplayAsRecorded,
    ::testing::Values(RecordedRun{"gnn_sampling.1", "gnn_sampling", "default"},
                      RecordedRun{"unet_multires.1", "unet_multires", "default"},
                      RecordedRun{"resnet_multires.1", "resnet_multires", "default"},
                      RecordedRun{"moe_streams.1", "moe_streams", "default"},
                      RecordedRun{"rlhf_phases.1", "rlhf_phases", "default"},
                      RecordedRun{"graph_pools.1", "graph_pools", "default"},
                      RecordedRun{"gpt2_capped.1", "gpt2_capped", "default", 14 * kGiB},
                      RecordedRun{"gpt2_varlen.1.expandable", "gpt2_varlen",
                                  "expandable_segments:True"}),
    [](const auto& tested) {
      std::string name = tested.param.name;
      for (char& letter : name) letter = letter == '.' ? '_' : letter;
      return name;
    });

TEST(ReplayOfAFailure, FailsAtTheRecordedEntry) {
  const ReplayResult result = replay_of(
      "oom.1", nullptr, static_cast<size_t>(0.02 * static_cast<double>(kRecordedCapacity)));
  ASSERT_EQ(result.ooms.size(), 1U);
  EXPECT_EQ(result.ooms[0].entry, 480U);
  EXPECT_TRUE(result.ooms[0].was_recorded);
  EXPECT_FALSE(result.fidelity->first_divergence);
  // The numbers of PyTorch's own error message.
  for (const char* part : {"limit of this process is 2.80 GiB", "2.64 GiB is allocated",
                           "142.44 MiB is reserved", "a segment of 26.00 MiB"}) {
    EXPECT_NE(result.ooms[0].message.find(part), std::string::npos) << result.ooms[0].message;
  }
}

struct PredictedRun {
  const char* workload;
  const char* settings;
  double tolerance_percent;
  std::optional<size_t> cap_bytes{};
};

class ReplayPrediction : public ::testing::TestWithParam<PredictedRun> {};

TEST_P(ReplayPrediction, MatchesThePeakOfPytorch) {
  const PredictedRun& prediction = GetParam();
  const std::string name = std::string(prediction.workload) + ".1";
  const ReplayResult result = replay_of(name, prediction.settings, prediction.cap_bytes);
  EXPECT_FALSE(result.fidelity.has_value());
  const Row truth = pytorch_row(prediction.workload, prediction.settings);
  const auto reserved = std::stod(truth.at("reserved_bytes.all.peak"));
  const double off_percent =
      100 * std::abs(static_cast<double>(result.stats.reserved_bytes.all.peak) - reserved) /
      reserved;
  EXPECT_LE(off_percent, prediction.tolerance_percent);
}

INSTANTIATE_TEST_SUITE_P(
    Traces, ReplayPrediction,
    ::testing::Values(
        PredictedRun{"gnn_sampling", "expandable_segments:True", 0},
        PredictedRun{"gnn_sampling", "max_split_size_mb:64", 0},
        PredictedRun{"gnn_sampling", "roundup_power2_divisions:8", 0},
        PredictedRun{"unet_multires", "expandable_segments:True", 0},
        PredictedRun{"unet_multires", "max_split_size_mb:64", 0},
        PredictedRun{"unet_multires", "roundup_power2_divisions:8", 0},
        PredictedRun{"resnet_multires", "expandable_segments:True", 0},
        PredictedRun{"resnet_multires", "max_split_size_mb:64", 0},
        PredictedRun{"resnet_multires", "roundup_power2_divisions:8", 0},
        PredictedRun{"moe_streams", "expandable_segments:True", 5},
        PredictedRun{"moe_streams", "max_split_size_mb:64", 5},
        PredictedRun{"moe_streams", "roundup_power2_divisions:8", 5},
        PredictedRun{"rlhf_phases", "expandable_segments:True", 0},
        PredictedRun{"rlhf_phases", "max_split_size_mb:128", 0},
        PredictedRun{"rlhf_phases", "roundup_power2_divisions:[64:2,256:4,1024:8,>:8]", 0},
        PredictedRun{"gpt2_capped", "expandable_segments:True", 0, 14 * kGiB},
        PredictedRun{"gpt2_capped", "garbage_collection_threshold:0.8", 0, 14 * kGiB},
        PredictedRun{"gpt2_capped", "max_split_size_mb:128", 0, 14 * kGiB},
        PredictedRun{"gpt2_capped", "roundup_power2_divisions:[64:2,256:4,1024:8,>:8]", 0,
                     14 * kGiB}));

class AddressPrediction : public ::testing::TestWithParam<const char*> {};

TEST_P(AddressPrediction, PredictsTheRecordedAddresses) {
  const Result<Snapshot> snapshot = read_snapshot(kTraces + GetParam() + ".pickle.xz");
  ASSERT_TRUE(snapshot.ok());
  const std::vector<TraceEntry>& trace = snapshot->device_traces[0];
  AddressPredictor predictor(trace);
  size_t segment_count = 0;
  for (uint32_t i = 0; i < trace.size(); ++i) {
    predictor.advance_to(i);
    if (trace[i].action == TraceAction::kSegmentFree) predictor.free(trace[i].address.value());
    if (trace[i].action != TraceAction::kSegmentAlloc) continue;
    ASSERT_EQ(predictor.allocate(trace[i].bytes), trace[i].address.value()) << "entry " << i;
    ++segment_count;
  }
  EXPECT_LT(3 * infer_allocations(trace).events.size(), 4 * segment_count)
      << "too many inferred events";
}

TEST(ReplayUnderOtherSettings, PlacesASegmentInRecordedFreeSpace) {
  const ReplayResult result = replay_of("rlhf_phases.1", "max_split_size_mb:128");
  ASSERT_EQ(result.inspected_segments.size(), 1U);
  EXPECT_EQ(result.inspected_segments[0].address.value(), 0x7f674c800000U)
      << "the address of the first segment";
}

INSTANTIATE_TEST_SUITE_P(Traces, AddressPrediction,
                         ::testing::Values("gnn_sampling.1", "resnet_multires.1", "moe_streams.1",
                                           "rlhf_phases.1", "gpt2_capped.1"));

}  // namespace
}  // namespace ashlar
