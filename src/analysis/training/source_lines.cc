// SPDX-License-Identifier: Apache-2.0
//
// Sums allocations by stack first, so that the frames of each stack are visited once.
#include "analysis/training/source_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/frame_kind.h"
#include "analysis/training/grouping.h"
#include "analysis/training/training_analysis.h"

namespace ashlar {
namespace {

struct StackUse {
  LineUse use{};
  CategoryBytes categories_at_peak{};
};

// As in StackIndex, allocations without a stack are keyed by whether they predate the recording.
struct StackKey {
  StackId stack{};
  bool is_before_recording = false;
  friend auto operator<=>(const StackKey&, const StackKey&) = default;
};

std::map<StackKey, StackUse> sum_by_stack(const DeviceRecording& recording) {
  const std::vector<Allocation>& all = recording.allocations().all;
  const Categories& categories = training_of(recording).categories;
  std::map<StackKey, StackUse> sums;
  const auto sum_of = [&](const Allocation& each) -> StackUse& {
    return sums[{each.stack, each.stack == StackId() && each.predates_trace()}];
  };
  for (const Allocation& each : all) {
    if (each.predates_trace()) continue;
    LineUse& use = sum_of(each).use;
    use.allocated_bytes += each.bytes;
    ++use.allocation_count;
  }
  for (const uint32_t id : allocations_at_peak(recording)) {
    StackUse& sum = sum_of(all[id]);
    sum.use.bytes_at_peak += all[id].bytes;
    ++sum.use.count_at_peak;
    sum.categories_at_peak[static_cast<size_t>(categories.of(id))] += all[id].bytes;
  }
  return sums;
}

// The frames of user code of each stack of a snapshot.
class UserCode {
 public:
  explicit UserCode(const SnapshotTables& tables) : tables_(tables) {
    const FrameClassifier classifier(tables);
    is_user_.reserve(tables.frames.size());
    for (const Frame& frame : tables.frames) {
      is_user_.push_back(classifier.kind(frame) == FrameKind::kUser);
    }
  }

  // Returns the frames of user code, innermost first.
  std::vector<const Frame*> of(StackId stack) const {
    std::vector<const Frame*> frames;
    if (stack.value() >= tables_.stacks.size()) return frames;
    for (const uint32_t frame : tables_.stacks[stack.value()].frames) {
      if (frame < is_user_.size() && is_user_[frame]) frames.push_back(&tables_.frames[frame]);
    }
    return frames;
  }

 private:
  const SnapshotTables& tables_;
  std::vector<bool> is_user_;
};

bool has_file(const Frame& frame) { return !frame.filename.empty() && frame.filename != "??"; }

// Identifies a line: by its number or, without one, by its function.
struct LineKey {
  std::string_view path{};
  int64_t line = 0;
  std::string_view function{};  // empty if the line has a number
  friend auto operator<=>(const LineKey&, const LineKey&) = default;
};

LineKey key_of(const Frame& frame) {
  LineKey key;
  if (has_file(frame)) key.path = frame.filename;
  key.line = std::max<int64_t>(frame.line, 0);
  if (key.path.empty()) key.line = 0;
  if (key.line == 0) key.function = frame.name;
  return key;
}

class LineTable {
 public:
  // Adds the allocations of one stack to the lines of its user code, innermost first.
  void add(const std::vector<const Frame*>& user_code, const StackUse& use) {
    std::set<LineKey> seen;
    for (const Frame* frame : user_code) {
      const LineKey key = key_of(*frame);
      if (!seen.insert(key).second) continue;
      SourceLine& line = lines_[key];
      line.line = key.line;
      line.function = frame->name;
      line.with_calls.add(use.use);
      if (seen.size() > 1) continue;
      line.own.add(use.use);
      for (size_t i = 0; i < kCategoryCount; ++i) {
        line.categories_at_peak[i] += use.categories_at_peak[i];
      }
    }
  }

  std::vector<SourceFile> take_files() {
    std::vector<SourceFile> files;
    for (const auto& [key, line] : lines_) {
      if (files.empty() || files.back().path != key.path) files.push_back({.path = key.path});
      files.back().own.add(line.own);
      files.back().lines.push_back(line);
    }
    return files;
  }

 private:
  std::map<LineKey, SourceLine> lines_{};
};

// Returns the label of a stack without user code: that of StackIndex without the backward node, or
// "library code".
std::string label_of(const DeviceRecording& recording, const StackKey& key) {
  if (key.is_before_recording) return "allocated before the recording";
  const std::vector<const Frame*> shown = recording.recording().frames(key.stack);
  if (shown.empty()) return "no stack was recorded";
  const Frame& innermost = *shown.front();
  const bool is_label = innermost.filename.empty() && innermost.line == 0;
  return is_label ? innermost.name.substr(0, innermost.name.find(": ")) : "library code";
}

// Sorts by bytes at the peak, then by allocated bytes, largest first.
template <typename Element, typename UseOf>
void sort_by_use(std::vector<Element>& elements, UseOf use_of) {
  std::stable_sort(elements.begin(), elements.end(), [&](const Element& a, const Element& b) {
    return std::pair(use_of(a).bytes_at_peak, use_of(a).allocated_bytes) >
           std::pair(use_of(b).bytes_at_peak, use_of(b).allocated_bytes);
  });
}

SourceLines find_source_lines(const DeviceRecording& recording) {
  const UserCode user_code(recording.snapshot().tables);
  SourceLines found;
  LineTable lines;
  std::map<std::string, LineUse> outside_user_code;
  for (const auto& [key, sum] : sum_by_stack(recording)) {
    found.total.add(sum.use);
    if (const std::vector<const Frame*> frames = user_code.of(key.stack); !frames.empty()) {
      lines.add(frames, sum);
    } else {
      outside_user_code[label_of(recording, key)].add(sum.use);
    }
  }
  found.files = lines.take_files();
  for (auto& [name, use] : outside_user_code) found.outside_user_code.push_back({name, use});
  sort_by_use(found.files, [](const SourceFile& each) -> const LineUse& { return each.own; });
  sort_by_use(found.outside_user_code,
              [](const UseOutsideUserCode& each) -> const LineUse& { return each.use; });
  return found;
}

}  // namespace

void LineUse::add(const LineUse& other) {
  bytes_at_peak += other.bytes_at_peak;
  count_at_peak += other.count_at_peak;
  allocated_bytes += other.allocated_bytes;
  allocation_count += other.allocation_count;
}

const SourceLines& source_lines_of(const DeviceRecording& recording) {
  return recording.cached<SourceLines>([&] { return find_source_lines(recording); });
}

}  // namespace ashlar
