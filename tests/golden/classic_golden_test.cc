// The classic engine against recorded PyTorch runs: the same segments at the same point, the same
// blocks at the same addresses, the same figures.
#include <gtest/gtest.h>

#include "base/units.h"
#include "golden/recorded_trace.h"

namespace ashlar {
namespace {

AllocatorOptions as_pytorch() {
  AllocatorOptions options;
  options.pytorch_compatible = true;
  return options;
}

struct Peaks {
  int64_t allocated = 0;
  int64_t reserved = 0;
  int64_t requested = 0;
  int64_t active = 0;
  friend bool operator==(const Peaks&, const Peaks&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Peaks& peaks) {
    return out << "allocated " << peaks.allocated << ", reserved " << peaks.reserved
               << ", requested " << peaks.requested << ", active " << peaks.active;
  }
};

Peaks peaks_of(const AllocatorStats& stats) {
  return {stats.allocated_bytes.all.peak, stats.reserved_bytes.all.peak,
          stats.requested_bytes.all.peak, stats.active_bytes.all.peak};
}

// As the traces' pytorch_truth.tsv has it, from torch.cuda.memory_stats.
struct Recording {
  std::string name;
  Peaks peaks;
  int64_t inactive_split_peak;
  int64_t device_allocs;
};

class DefaultSettings : public ::testing::TestWithParam<Recording> {};

TEST_P(DefaultSettings, EveryBlockLiesWherePytorchPutIt) {
  const std::vector<RecordedAct> acts = read_recorded_trace(GetParam().name);
  ASSERT_FALSE(acts.empty());
  const Outcome outcome = TraceReplay(acts, as_pytorch()).run(true);
  ASSERT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.same_address_count, outcome.alloc_count);
  EXPECT_EQ(outcome.segment_acts, outcome.wanted_segment_acts);
  EXPECT_EQ(peaks_of(outcome.stats), GetParam().peaks);
  EXPECT_EQ(outcome.stats.inactive_split_bytes.all.peak, GetParam().inactive_split_peak);
  EXPECT_EQ(outcome.stats.device_allocs, GetParam().device_allocs);
}

INSTANTIATE_TEST_SUITE_P(
    Recorded, DefaultSettings,
    ::testing::Values(
        Recording{
            "gnn_sampling.1", {3676058112, 9095348224, 3674258672, 3676058112}, 1320508416, 29},
        Recording{"unet_multires.1", {354265600, 572522496, 349424531, 354265600}, 121787904, 20},
        Recording{"resnet_multires.1",
                  {7534213120, 13780385792, 7528992912, 7534213120},
                  1407944704,
                  147},
        Recording{
            "moe_streams.1", {3295341056, 5314183168, 3372282040, 3374571008}, 584192512, 258}),
    [](const auto& tested) { return tested.param.name.substr(0, tested.param.name.find('.')); });

TEST(ExpandableSettings, EverySegmentGrowsWhenAndByWhatPytorchGrewIt) {
  const std::vector<RecordedAct> acts = read_recorded_trace("gpt2_varlen.1.expandable");
  ASSERT_FALSE(acts.empty());
  AllocatorOptions options = as_pytorch();
  options.expandable_segments = true;
  const Outcome outcome = TraceReplay(acts, options).run(false);
  ASSERT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.segment_acts, outcome.wanted_segment_acts);
  EXPECT_EQ(peaks_of(outcome.stats), (Peaks{11994422784, 12874416128, 11994389200, 11994422784}));
  EXPECT_EQ(outcome.stats.device_allocs, 144);
}

TEST(CappedSettings, TheCacheIsFlushedAndTheAllocationRetriedWhereItWas) {
  const std::vector<RecordedAct> acts = read_recorded_trace("gpt2_capped.1");
  ASSERT_FALSE(acts.empty());
  AllocatorOptions options = as_pytorch();
  options.memory_fraction = static_cast<double>(14 * kGiB) / 150109880320.0;
  const Outcome outcome = TraceReplay(acts, options).run(true);
  ASSERT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.same_address_count, outcome.alloc_count);
  EXPECT_EQ(outcome.segment_acts, outcome.wanted_segment_acts);
  EXPECT_EQ(peaks_of(outcome.stats), (Peaks{12024799232, 14168358912, 11994389200, 12024799232}));
  EXPECT_EQ(outcome.stats.alloc_retries, 1);
  EXPECT_EQ(outcome.stats.device_frees, 38);
}

TEST(OtherSettings, ARunUnderAnotherSettingIsPredicted) {
  const std::vector<RecordedAct> acts = read_recorded_trace("gpt2_varlen.1.expandable");
  ASSERT_FALSE(acts.empty());
  AllocatorOptions options = as_pytorch();
  options.max_split_bytes = 64 * kMiB;
  const Outcome outcome = TraceReplay(acts, options).run(false);
  ASSERT_EQ(outcome.failure, "");
  EXPECT_EQ(peaks_of(outcome.stats), (Peaks{12073319936, 42192601088, 11994389200, 12073319936}));
}

TEST(OomSettings, TheRunEndsWhereItEnded) {
  const std::vector<RecordedAct> acts = read_recorded_trace("oom.1");
  ASSERT_FALSE(acts.empty());
  AllocatorOptions options = as_pytorch();
  options.memory_fraction = 0.02;
  // The failed allocation itself is not an act of the trace: it is asked for where "oom" stands.
  std::vector<RecordedAct> until_oom;
  for (const RecordedAct& act : acts) {
    if (act.action == "oom") {
      until_oom.push_back({"alloc", 0, act.bytes, act.stream});
      break;
    }
    until_oom.push_back(act);
  }
  const Outcome outcome = TraceReplay(until_oom, options).run(true);
  EXPECT_NE(outcome.failure.find("out of memory"), std::string::npos) << outcome.failure;
  // PyTorch's own message had these three figures.
  EXPECT_NE(outcome.failure.find("2.80 GiB are allowed"), std::string::npos) << outcome.failure;
  EXPECT_NE(outcome.failure.find("2.64 GiB are allocated"), std::string::npos) << outcome.failure;
  EXPECT_NE(outcome.failure.find("142.44 MiB are reserved"), std::string::npos) << outcome.failure;
  EXPECT_EQ(outcome.stats.ooms, 1);
}

}  // namespace
}  // namespace ashlar
