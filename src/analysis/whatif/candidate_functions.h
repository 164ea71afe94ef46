// SPDX-License-Identifier: Apache-2.0
//
// The functions of a recorded program that an edit can name and that could be checkpointed. Left
// out are functions that the recording cannot tell from others, functions that call backward(),
// step() or themselves, and functions that are checkpointed already. Not thread safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/whatif/run_editor.h"

namespace ashlar {

struct CandidateFunction {
  size_t index = 0;        // in CandidateFunctions::all()
  std::string selector{};  // "train.py:Block.forward", "train.py:50-52"; names only this function
  std::string name{};      // "Block.forward"; without the source "forward"
  std::vector<Frame> callers{};  // the lines of the program that call it, in order
};

class CandidateFunctions {
 public:
  // REQUIRES: the arguments outlive this object.
  CandidateFunctions(const DeviceRecording& recording, const RunEditor& editor,
                     const NameSources& sources);

  const std::vector<CandidateFunction>& all() const { return all_; }

  // Returns whether one function calls the other, so that an edit of both would be nested.
  bool are_nested(size_t a, size_t b) const {
    return nested_.contains(
        {static_cast<uint32_t>(std::min(a, b)), static_cast<uint32_t>(std::max(a, b))});
  }

  // Returns for each candidate how many bytes at `position` were allocated in it and are freed by a
  // backward pass: the most that recomputing or moving them can gain there.
  std::vector<size_t> saved_bytes_at(const EditedRun& run, uint32_t position) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Frames of one function, as indexes into SnapshotTables::frames.
  using Group = std::vector<uint32_t>;

  std::vector<bool> frames_in_paths() const;
  std::vector<bool> user_frames() const;
  std::vector<Group> group_by_source(const std::vector<bool>& users) const;
  std::vector<Group> group_by_name(const std::vector<bool>& users) const;
  std::vector<Group> split_by_callers(const Group& group) const;
  std::vector<bool> excluded_frames() const;
  bool calls_itself(const Group& group) const;
  void add(const Group& group);
  std::vector<std::string> names_of(const Group& group) const;
  bool is_selected_by(const std::string& selector, const Group& group) const;
  void find_callers(const std::vector<bool>& users);
  void find_nested();

  const DeviceRecording& recording_;
  const RunEditor& editor_;
  const NameSources& sources_;
  const std::vector<Frame>& frames_;
  std::vector<bool> is_used_;  // for each frame: in some path; of equal frames, only the first is
  std::vector<CandidateFunction> all_;
  std::set<std::pair<uint32_t, uint32_t>> nested_;  // pairs of indexes, the lower one first
  std::vector<uint32_t> by_frame_;                  // for each frame: index into all_, or kNone
};

}  // namespace ashlar
