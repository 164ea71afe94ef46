// SPDX-License-Identifier: Apache-2.0
//
// Names the group of each allocation, then sums by name.
#include "analysis/training/grouping.h"

#include <algorithm>
#include <map>

#include "analysis/training/call_runs.h"
#include "analysis/training/training_analysis.h"
#include "base/text.h"

namespace ashlar {
namespace {

constexpr const char* kBeforeRecording = "before the recording";

class GroupNames {
 public:
  GroupNames(const DeviceRecording& recording, GroupBy by)
      : recording_(recording), analysis_(training_of(recording)), by_(by) {
    if (by == GroupBy::kAnnotation) find_innermost_ranges();
  }

  std::string of(uint32_t id) const {
    if (by_ == GroupBy::kCategory) return name(analysis_.categories.of(id));
    const Allocation& each = recording_.allocations().all[id];
    if (each.predates_trace()) return kBeforeRecording;
    const TraceEntry& entry = recording_.trace()[each.alloc_entry];
    switch (by_) {
      case GroupBy::kPhase: return name(phase_at(each.alloc_entry));
      case GroupBy::kIteration: return iteration_name(each.alloc_entry);
      case GroupBy::kAnnotation: return annotation_of(each.alloc_entry, entry);
      case GroupBy::kContext: return text_of(entry.compile_context, "no compile context");
      case GroupBy::kCategory: break;
    }
    return {};
  }

 private:
  Phase phase_at(uint32_t entry) const {
    const Iterations& iterations = analysis_.iterations;
    return iterations.phases[iterations.phase_index_at(entry)].phase;
  }

  std::string iteration_name(uint32_t entry) const {
    const uint32_t iteration = analysis_.iterations.at(entry);
    if (iteration == Iterations::kNoIteration) return "outside iterations";
    return text("iteration ", iteration + 1);
  }

  std::string annotation_of(uint32_t entry, const TraceEntry& traced) const {
    if (innermost_[entry] != kNoRange) return ranges_[innermost_[entry]].name;
    return text_of(traced.user_metadata, "no annotation");
  }

  std::string text_of(StringId id, const char* otherwise) const {
    const std::vector<std::string>& strings = recording_.snapshot().tables.strings;
    // PyTorch writes "N/A" for no compile context.
    const bool is_set =
        id.value() < strings.size() && !strings[id.value()].empty() && strings[id.value()] != "N/A";
    return is_set ? strings[id.value()] : otherwise;
  }

  // The innermost range of an entry is the most recently opened one that has not ended.
  void find_innermost_ranges() {
    ranges_ = annotated_ranges(recording_.snapshot(), recording_.device());
    innermost_.assign(recording_.trace().size(), kNoRange);
    std::vector<uint32_t> open;
    uint32_t next = 0;
    for (uint32_t entry = 0; entry < innermost_.size(); ++entry) {
      while (next < ranges_.size() && ranges_[next].entries.first <= entry) open.push_back(next++);
      while (!open.empty() && ranges_[open.back()].entries.end <= entry) open.pop_back();
      if (!open.empty()) innermost_[entry] = open.back();
    }
  }

  static constexpr uint32_t kNoRange = UINT32_MAX;

  const DeviceRecording& recording_;
  const TrainingAnalysis& analysis_;
  GroupBy by_;
  std::vector<AnnotatedRange> ranges_;
  std::vector<uint32_t> innermost_;  // for each entry: an index into ranges_
};

}  // namespace

std::vector<uint32_t> allocations_at_peak(const DeviceRecording& recording) {
  return present_at(recording.allocations(), recording.timeline().reserved_peak.entry);
}

std::optional<GroupBy> parse_group_by(std::string_view name) {
  if (name == "category") return GroupBy::kCategory;
  if (name == "phase") return GroupBy::kPhase;
  if (name == "iteration") return GroupBy::kIteration;
  if (name == "annotation") return GroupBy::kAnnotation;
  if (name == "context") return GroupBy::kContext;
  return std::nullopt;
}

std::vector<AllocationGroup> group_allocations(const DeviceRecording& recording,
                                               const std::vector<uint32_t>& selected, GroupBy by) {
  const GroupNames names(recording, by);
  std::map<std::string, AllocationGroup> groups;
  for (const uint32_t id : selected) {
    std::string name = names.of(id);
    AllocationGroup& group = groups[name];
    group.name = std::move(name);
    group.bytes += recording.allocations().all[id].bytes;
    ++group.count;
  }
  std::vector<AllocationGroup> sorted;
  for (auto& [name, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace ashlar
