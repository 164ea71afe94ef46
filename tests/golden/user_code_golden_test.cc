// SPDX-License-Identifier: Apache-2.0
//
// Checks which frames are shown of the stacks of recorded programs. The paths of the user's files
// begin with /srv/jobs/ in all recordings.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "analysis/recording.h"

namespace ashlar {
namespace {

bool is_of_user(const Frame& frame) { return frame.filename.starts_with("/srv/jobs/"); }

bool any_of_user(const std::vector<const Frame*>& frames) {
  return std::any_of(frames.begin(), frames.end(),
                     [](const Frame* each) { return is_of_user(*each); });
}

std::vector<std::string> paths_of_recordings() {
  std::vector<std::string> paths;
  for (const char* folder : {"/recordings", "/traces"}) {
    for (const auto& each :
         std::filesystem::directory_iterator(std::string(ASHLAR_GOLDEN_FOLDER) + folder)) {
      if (each.path().extension() == ".xz") paths.push_back(each.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct HolderCounts {
  size_t with_user_code = 0;
  size_t user_code_first = 0;
};

// Counts the full stacks that hold memory at the peak of requested bytes.
void count_holders(const DeviceRecording& run, HolderCounts& counts) {
  const Recording& recording = run.recording();
  const std::vector<uint32_t>& numbers = recording.stack_numbers(StackDetail::kFull);
  std::map<uint32_t, StackId> holders;
  for (const uint32_t id : present_at(run.allocations(), run.timeline().requested_peak.entry)) {
    const StackId stack = run.allocations().all[id].stack;
    holders.emplace(stack_number(numbers, stack), stack);
  }
  for (const auto& [number, stack] : holders) {
    if (!any_of_user(recording.frames(stack, StackDetail::kFull))) continue;
    ++counts.with_user_code;
    if (is_of_user(*recording.frames(stack).front())) ++counts.user_code_first;
  }
}

void expect_only_user_code_if_any(const StackIndex& stacks) {
  for (uint32_t number = 0; number < stacks.size(); ++number) {
    const std::vector<const Frame*> shown = stacks.frames(number);
    if (!any_of_user(stacks.full_frames(number))) continue;
    EXPECT_TRUE(std::all_of(shown.begin(), shown.end(), [](const Frame* each) {
      return is_of_user(*each);
    })) << shown.front()->name;
  }
}

TEST(UserCodeGoldenTest, ShowsOnlyUserCodeIfAny) {
  HolderCounts counts;
  for (const std::string& path : paths_of_recordings()) {
    SCOPED_TRACE(path);
    const auto recording = Recording::open(path);
    ASSERT_TRUE(recording.ok()) << recording.status().message();
    for (const DeviceIndex device : (*recording)->devices()) {
      count_holders(DeviceRecording(*recording, device), counts);
    }
    expect_only_user_code_if_any((*recording)->stacks());
  }
  EXPECT_GT(counts.with_user_code, 400U);
  EXPECT_EQ(counts.user_code_first, counts.with_user_code);
}

}  // namespace
}  // namespace ashlar
