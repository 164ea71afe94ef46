// SPDX-License-Identifier: Apache-2.0
//
// A setting that changes nothing must not change any number: replays of every recording, complete
// and with its beginning cut off, under the recorded settings and under settings without effect.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "analysis/recording.h"
#include "analysis/replay/replay.h"
#include "base/units.h"

namespace ashlar {
namespace {

constexpr size_t kLongRecording = 50'000;

std::vector<std::string> golden_recordings() {
  std::set<std::string> files;
  for (const char* folder : {"/traces", "/recordings"}) {
    for (const auto& file :
         std::filesystem::directory_iterator(std::string(ASHLAR_GOLDEN_FOLDER) + folder)) {
      if (file.path().extension() == ".xz") files.insert(file.path().string());
    }
  }
  return {files.begin(), files.end()};
}

ReplayOptions recorded_options(const DeviceRecording& run) {
  ReplayOptions options;
  options.device = run.device();
  options.recorded = options.allocator = run.options();
  options.capacity_bytes = assumed_capacity_bytes(run.snapshot(), run.device());
  return options;
}

ReplayResult replay_run(const DeviceRecording& run, const ReplayOptions& options) {
  Result<ReplayResult> result = replay(run.snapshot(), run.allocations(), options);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return result.ok() ? *std::move(result) : ReplayResult();
}

// All numbers of a replay that reports show.
std::vector<int64_t> numbers_of(const ReplayResult& result) {
  const AllocatorStats& stats = result.stats;
  std::vector<int64_t> numbers = {static_cast<int64_t>(result.start_reserved_bytes),
                                  static_cast<int64_t>(result.starts_as_recorded),
                                  static_cast<int64_t>(result.ooms.size()),
                                  static_cast<int64_t>(result.driver.total_ns),
                                  static_cast<int64_t>(result.same_address_count)};
  for (const Stat& stat :
       {stats.requested_bytes.all, stats.allocated_bytes.all, stats.active_bytes.all,
        stats.reserved_bytes.all, stats.inactive_split_bytes.all, stats.segment.all}) {
    numbers.push_back(stat.peak);
    numbers.push_back(stat.current);
  }
  numbers.push_back(static_cast<int64_t>(stats.alloc_retries));
  numbers.push_back(static_cast<int64_t>(stats.device_allocs));
  numbers.push_back(static_cast<int64_t>(stats.device_frees));
  return numbers;
}

std::shared_ptr<const Recording> without_beginning(const Snapshot& snapshot, size_t percent) {
  Snapshot cut = snapshot;
  for (std::vector<TraceEntry>& trace : cut.device_traces) {
    trace.erase(trace.begin(),
                trace.begin() + static_cast<std::ptrdiff_t>(trace.size() * percent / 100));
  }
  return Recording::create("cut", std::move(cut));
}

class NeutralSettings : public testing::TestWithParam<std::string> {};

TEST_P(NeutralSettings, ChangeNoNumber) {
  const Result<std::shared_ptr<const Recording>> whole = Recording::open(GetParam());
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  for (const size_t percent : {0, 20, 50, 90}) {
    const auto recording = without_beginning((*whole)->snapshot(), percent);
    for (const DeviceIndex device : recording->devices()) {
      const DeviceRecording run(recording, device);
      if (!run.has_history()) continue;
      // Long recordings are replayed less often, to save time.
      if (run.trace().size() > kLongRecording && percent == 20) continue;
      SCOPED_TRACE(testing::Message() << "without " << percent << " %, device " << device.value());
      const ReplayOptions options = recorded_options(run);
      const std::vector<int64_t> expected = numbers_of(replay_run(run, options));
      ReplayOptions unsplit = options;
      unsplit.allocator.max_split_bytes = size_t{1} << 50;
      EXPECT_EQ(numbers_of(replay_run(run, unsplit)), expected) << "max_split_size_mb";
      ReplayOptions uncollected = options;
      uncollected.allocator.garbage_collection_threshold = 0.999999;
      EXPECT_EQ(numbers_of(replay_run(run, uncollected)), expected)
          << "garbage_collection_threshold";
    }
  }
}

// If a replay of the whole history repeats the recorded segment events, so does a replay of its end
// that starts from the reconstructed layout.
TEST_P(NeutralSettings, TruncatedRecordingsReplayExactly) {
  const Result<std::shared_ptr<const Recording>> whole = Recording::open(GetParam());
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  const auto recording = without_beginning((*whole)->snapshot(), 50);
  for (const DeviceIndex device : recording->devices()) {
    const DeviceRecording run(recording, device);
    if (!run.has_history()) continue;
    const DeviceRecording whole_run(*whole, device);
    const std::optional<Fidelity> whole_fidelity =
        replay_run(whole_run, recorded_options(whole_run)).fidelity;
    if (whole_fidelity && whole_fidelity->first_divergence) continue;
    const ReplayResult result = replay_run(run, recorded_options(run));
    EXPECT_TRUE(result.starts_as_recorded);
    if (run.has_oom()) continue;
    EXPECT_EQ(result.start_reserved_bytes, run.timeline().initial.reserved_bytes);
    EXPECT_EQ(static_cast<size_t>(result.stats.reserved_bytes.all.peak),
              run.timeline().reserved_peak.bytes);
    ASSERT_TRUE(result.fidelity);
    EXPECT_FALSE(result.fidelity->first_divergence)
        << describe(result.fidelity->first_divergence->recorded.value_or(SegmentEvent()));
  }
}

INSTANTIATE_TEST_SUITE_P(AllRecordings, NeutralSettings, testing::ValuesIn(golden_recordings()),
                         [](const auto& tested) {
                           std::string name = std::filesystem::path(tested.param).filename();
                           name.resize(name.find(".pickle"));
                           for (char& letter : name) letter = letter == '.' ? '_' : letter;
                           return name;
                         });

}  // namespace
}  // namespace ashlar
