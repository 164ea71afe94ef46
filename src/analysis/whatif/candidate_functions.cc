// SPDX-License-Identifier: Apache-2.0
//
// Recorded frames have unqualified names, so "forward" in a file may be several functions. With the
// source, its outline tells them apart. Without it, frames of one name are one function if nothing
// speaks against it, or else if they have the same callers and no other function is between their
// lines.
#include "analysis/whatif/candidate_functions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/frame_kind.h"
#include "analysis/whatif/python_outline.h"
#include "base/text.h"

namespace ashlar {
namespace {

constexpr size_t kMaxCallers = 3;

std::string_view last_of(std::string_view text, std::string_view separators) {
  const size_t separator = text.find_last_of(separators);
  return separator == std::string_view::npos ? text : text.substr(separator + 1);
}

// Numbers the prefixes of paths, which begin with the outermost frame.
class PrefixIndex {
 public:
  // Returns the number of the prefix that ends with `frame` after the prefix `before`; 0 is empty.
  uint32_t extend(uint32_t before, uint32_t frame) {
    return numbers_.try_emplace({before, frame}, static_cast<uint32_t>(numbers_.size() + 1))
        .first->second;
  }

 private:
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;
};

bool is_around_training(CallSite site) {
  return site == CallSite::kBackwardCall || site == CallSite::kOptimizer ||
         site == CallSite::kZeroGrad;
}

}  // namespace

CandidateFunctions::CandidateFunctions(const DeviceRecording& recording, const RunEditor& editor,
                                       const NameSources& sources)
    : recording_(recording),
      editor_(editor),
      sources_(sources),
      frames_(recording.snapshot().tables.frames),
      is_used_(frames_in_paths()),
      by_frame_(frames_.size(), kNone) {
  const std::vector<bool> users = user_frames();
  const bool has_source = sources.folders != nullptr && !sources.folders->is_empty();
  const std::vector<bool> excluded = excluded_frames();
  for (const Group& group : has_source ? group_by_source(users) : group_by_name(users)) {
    const bool is_excluded =
        std::any_of(group.begin(), group.end(), [&](uint32_t frame) { return excluded[frame]; });
    if (!is_excluded && !calls_itself(group)) add(group);
  }
  find_callers(users);
  find_nested();
}

std::vector<bool> CandidateFunctions::frames_in_paths() const {
  std::vector<bool> found(frames_.size());
  const auto count = static_cast<uint32_t>(recording_.snapshot().tables.stacks.size());
  for (uint32_t i = 0; i < count; ++i) {
    for (const uint32_t frame : editor_.paths().of(StackId(i))) found[frame] = true;
  }
  return found;
}

// Names like "<module>" and "<lambda>" are not functions that a call can be wrapped around.
std::vector<bool> CandidateFunctions::user_frames() const {
  const FrameClassifier classifier(recording_.snapshot().tables);
  std::vector<bool> found(frames_.size());
  for (size_t i = 1; i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    found[i] = is_used_[i] && frame.line > 0 && !frame.name.empty() &&
               !frame.name.starts_with('<') && classifier.is_python(frame) &&
               classifier.kind(frame) == FrameKind::kUser;
  }
  return found;
}

std::vector<bool> CandidateFunctions::excluded_frames() const {
  std::vector<bool> excluded(frames_.size());
  const StackTraitsTable& traits = training_of(recording_).traits;
  const auto count = static_cast<uint32_t>(recording_.snapshot().tables.stacks.size());
  for (uint32_t i = 0; i < count; ++i) {
    const StackTraits& stack = traits.of(StackId(i));
    if (!stack.in_recomputation && !is_around_training(stack.alloc_site) &&
        !is_around_training(stack.free_site)) {
      continue;
    }
    for (const uint32_t frame : editor_.paths().of(StackId(i))) excluded[frame] = true;
  }
  return excluded;
}

bool CandidateFunctions::calls_itself(const Group& group) const {
  const std::set<uint32_t> members(group.begin(), group.end());
  const auto count = static_cast<uint32_t>(recording_.snapshot().tables.stacks.size());
  for (uint32_t i = 0; i < count; ++i) {
    const std::vector<uint32_t>& path = editor_.paths().of(StackId(i));
    const auto depth = std::count_if(path.begin(), path.end(),
                                     [&](uint32_t frame) { return members.contains(frame); });
    if (depth > 1) return true;
  }
  return false;
}

// Leaves out files without a source in the folders.
std::vector<CandidateFunctions::Group> CandidateFunctions::group_by_source(
    const std::vector<bool>& users) const {
  std::map<std::string_view, Group> by_file;
  for (uint32_t i = 0; i < frames_.size(); ++i) {
    if (users[i]) by_file[frames_[i].filename].push_back(i);
  }
  std::vector<Group> groups;
  for (const auto& [file, members] : by_file) {
    std::vector<RecordedLine> recorded;
    for (const uint32_t frame : members) {
      recorded.push_back({frames_[frame].name, frames_[frame].line});
    }
    const Result<SourceText> source = sources_.folders->read(file, recorded);
    if (!source.ok()) continue;
    const std::vector<PythonFunction> functions = python_functions(source->lines);
    std::map<size_t, Group> by_function;
    for (const uint32_t frame : members) {
      // The innermost function around the line is the last one that begins before it.
      for (size_t i = functions.size(); i-- > 0;) {
        const bool contains = functions[i].first_line <= frames_[frame].line &&
                              frames_[frame].line <= functions[i].last_line;
        if (!contains) continue;
        const bool is_named = last_of(functions[i].qualified_name, ".") == frames_[frame].name;
        if (is_named) by_function[i].push_back(frame);
        break;
      }
    }
    for (auto& [function, group] : by_function) groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<CandidateFunctions::Group> CandidateFunctions::group_by_name(
    const std::vector<bool>& users) const {
  std::map<std::pair<std::string_view, std::string_view>, Group> by_name;
  for (uint32_t i = 0; i < frames_.size(); ++i) {
    if (users[i]) by_name[{frames_[i].filename, frames_[i].name}].push_back(i);
  }
  std::vector<Group> groups;
  for (const auto& [name, group] : by_name) {
    const Result<Edit> edit =
        parse_edit(EditKind::kRecompute, text(last_of(name.first, "/\\"), ":", name.second));
    const bool is_one = edit.ok() && editor_.names().frames_of(edit->selector.terms.front()).ok();
    if (is_one) {
      groups.push_back(group);
      continue;
    }
    for (Group& each : split_by_callers(group)) groups.push_back(std::move(each));
  }
  return groups;
}

// Joins the frames that some path has after the same callers. add() rejects those with other
// functions between their lines.
std::vector<CandidateFunctions::Group> CandidateFunctions::split_by_callers(
    const Group& group) const {
  const std::set<uint32_t> members(group.begin(), group.end());
  PrefixIndex prefixes;
  std::map<uint32_t, uint32_t> first_after;  // the first frame of the group after each prefix
  std::map<uint32_t, uint32_t> joined;       // a forest of frames
  for (const uint32_t frame : group) joined[frame] = frame;
  const auto root_of = [&joined](uint32_t frame) {
    while (joined[frame] != frame) frame = joined[frame] = joined[joined[frame]];
    return frame;
  };
  const auto count = static_cast<uint32_t>(recording_.snapshot().tables.stacks.size());
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t prefix = 0;
    for (const uint32_t frame : editor_.paths().of(StackId(i))) {
      if (members.contains(frame)) {
        const uint32_t other = first_after.try_emplace(prefix, frame).first->second;
        joined[root_of(frame)] = root_of(other);
      }
      prefix = prefixes.extend(prefix, frame);
    }
  }
  std::map<uint32_t, Group> by_root;
  for (const uint32_t frame : group) by_root[root_of(frame)].push_back(frame);
  std::vector<Group> groups;
  for (auto& [root, frames] : by_root) groups.push_back(std::move(frames));
  return groups;
}

// Adds a function if a selector names exactly its frames: by its name or by its lines, with the
// file name or else the whole path.
void CandidateFunctions::add(const Group& group) {
  const auto [first, last] = std::minmax_element(
      group.begin(), group.end(),
      [this](uint32_t a, uint32_t b) { return frames_[a].line < frames_[b].line; });
  const std::string_view path = frames_[group.front()].filename;
  for (const std::string& name : names_of(group)) {
    for (const std::string_view file : {last_of(path, "/\\"), path}) {
      for (const std::string& selector :
           {text(file, ":", name),
            text(file, ":", frames_[*first].line, "-", frames_[*last].line)}) {
        if (!is_selected_by(selector, group)) continue;
        for (const uint32_t each : group) by_frame_[each] = static_cast<uint32_t>(all_.size());
        all_.push_back({.index = all_.size(), .selector = selector, .name = name});
        return;
      }
    }
  }
}

// Returns the qualified name, if there is a source, and the recorded name.
std::vector<std::string> CandidateFunctions::names_of(const Group& group) const {
  const Frame& frame = frames_[group.front()];
  std::vector<std::string> names;
  if (sources_.folders != nullptr && !sources_.folders->is_empty()) {
    const Result<SourceText> source =
        sources_.folders->read(frame.filename, {{frame.name, frame.line}});
    const std::vector<PythonFunction> functions =
        source.ok() ? python_functions(source->lines) : std::vector<PythonFunction>();
    for (size_t i = functions.size(); i-- > 0 && names.empty();) {
      const bool contains =
          functions[i].first_line <= frame.line && frame.line <= functions[i].last_line;
      if (contains) names.push_back(functions[i].qualified_name);
    }
  }
  names.push_back(frame.name);
  return names;
}

// Parts of a function, such as lambdas, count as the function.
bool CandidateFunctions::is_selected_by(const std::string& selector, const Group& group) const {
  const Result<Edit> edit = parse_edit(EditKind::kRecompute, selector);
  if (!edit.ok() || edit->selector.terms.size() != 1) return false;
  const Result<FrameSet> selected = editor_.names().frames_of(edit->selector.terms.front());
  if (!selected.ok()) return false;
  size_t selected_count = 0;
  for (size_t i = 0; i < selected->size(); ++i) {
    const bool is_part = frames_[i].name.starts_with('<');
    if ((*selected)[i] && is_used_[i] && !is_part) ++selected_count;
  }
  return selected_count == group.size() &&
         std::all_of(group.begin(), group.end(), [&](uint32_t i) { return (*selected)[i]; });
}

// The caller of a function is the next line of the program outside it, without library code.
void CandidateFunctions::find_callers(const std::vector<bool>& users) {
  std::vector<std::set<uint32_t>> callers(all_.size());
  const auto count = static_cast<uint32_t>(recording_.snapshot().tables.stacks.size());
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t caller = kNone;
    for (const uint32_t frame : editor_.paths().of(StackId(i))) {
      const uint32_t called = by_frame_[frame];
      if (called != kNone && caller != kNone && by_frame_[caller] != called) {
        callers[called].insert(caller);
      }
      const bool is_user = users[frame] || frames_[frame].name.starts_with("<module>");
      if (is_user) caller = frame;
    }
  }
  for (size_t i = 0; i < all_.size(); ++i) {
    for (const uint32_t frame : callers[i]) all_[i].callers.push_back(frames_[frame]);
    std::sort(all_[i].callers.begin(), all_[i].callers.end(), [](const Frame& a, const Frame& b) {
      return std::tie(a.filename, a.line) < std::tie(b.filename, b.line);
    });
    if (all_[i].callers.size() > kMaxCallers) all_[i].callers.resize(kMaxCallers);
  }
}

void CandidateFunctions::find_nested() {
  const auto count = static_cast<uint32_t>(recording_.snapshot().tables.stacks.size());
  std::vector<uint32_t> functions;
  for (uint32_t i = 0; i < count; ++i) {
    functions.clear();
    for (const uint32_t frame : editor_.paths().of(StackId(i))) {
      const uint32_t function = by_frame_[frame];
      if (function == kNone) continue;
      for (const uint32_t outer : functions) {
        nested_.insert({std::min(outer, function), std::max(outer, function)});
      }
      functions.push_back(function);
    }
  }
}

std::vector<size_t> CandidateFunctions::saved_bytes_at(const EditedRun& run,
                                                       uint32_t position) const {
  std::vector<size_t> saved(all_.size());
  std::set<uint32_t> functions;
  for (const uint32_t id : run.present_after(position + 1)) {
    const EditedAllocation& each = run.allocations()[id];
    if (each.begin == kNoOperation || each.free == kNoOperation) continue;
    const bool is_saved = editor_.paths().is_of_program(run.operations()[each.begin]) &&
                          editor_.paths().is_of_backward(run.operations()[each.free]);
    if (!is_saved) continue;
    functions.clear();
    for (const uint32_t frame : editor_.paths().of(run.stack_of(id))) {
      if (by_frame_[frame] != kNone) functions.insert(by_frame_[frame]);
    }
    for (const uint32_t function : functions) saved[function] += each.bytes;
  }
  return saved;
}

}  // namespace ashlar
