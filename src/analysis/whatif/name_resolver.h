// SPDX-License-Identifier: Apache-2.0
//
// Finds the frames and allocations that a selector names. If a name matches nothing, the error
// lists the nearest names; if it is ambiguous, the candidates. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/recording.h"
#include "analysis/whatif/edit.h"
#include "analysis/whatif/stack_paths.h"
#include "ashlar/status.h"
#include "files/source_folders.h"

namespace ashlar {

// Returns whether an expression matches a frame, given as "forward model.py:87": its name, file and
// line.
using FrameExpression = std::function<bool(std::string_view frame)>;
// Compiles a regular expression. kInvalidArgument: it is invalid.
using CompileExpression = std::function<Result<FrameExpression>(const std::string& expression)>;

struct NameSources {
  const SourceFolders* folders = nullptr;  // to resolve "Block.forward"; null: no source is read
  CompileExpression compile{};             // empty: frame:REGEX is not available
};

// For each frame of SnapshotTables::frames, whether it matches.
using FrameSet = std::vector<bool>;

class NameResolver {
 public:
  // REQUIRES: the arguments outlive this object.
  NameResolver(const DeviceRecording& recording, const StackPaths& paths,
               const NameSources& sources);

  // Returns the frames that a term names. REQUIRES: the term is not a category.
  // kInvalidArgument: no frame matches, or the name is ambiguous.
  Result<FrameSet> frames_of(const SelectorTerm& term) const;
  // Returns the requests that the selector matches. Library workspaces match only selectors with a
  // category. A failed request has the category of the allocations with its stack; without any, it
  // is an activation if it failed in a forward pass.
  // kInvalidArgument: a term matches nothing or is ambiguous.
  Result<Selection> selection_of(const Selector& selector) const;

 private:
  using FrameFilter = std::function<bool(const Frame& frame)>;

  // A request of the recording: an allocation, or a failed request.
  struct Request {
    StackId stack{};
    Category category = Category::kUnknown;
    bool is_selected = true;
  };

  std::vector<Request> allocated_requests() const;
  std::vector<Request> failed_requests(const std::vector<uint32_t>& failures) const;
  Status narrow(std::vector<Request>& requests, const SelectorTerm& term) const;
  Result<std::string> file_of(const SelectorTerm& term) const;
  Result<FrameSet> frames_of_lines(const SelectorTerm& term, const std::string& file) const;
  Result<FrameSet> frames_of_function(const SelectorTerm& term, const std::string& file) const;
  Result<FrameSet> frames_of_name(const SelectorTerm& term, const std::string& file) const;
  Result<FrameSet> frames_of_expression(const SelectorTerm& term) const;
  FrameSet select(const FrameFilter& matches) const;
  bool is_nested(const FrameSet& frames) const;
  std::string nearest_lines(const SelectorTerm& term, const std::string& file) const;
  std::string unknown_function(const SelectorTerm& term, const std::string& file) const;
  std::string lines_text(const FrameSet& frames) const;
  std::optional<std::string> function_between(const FrameSet& frames, const std::string& file,
                                              const std::string& name) const;

  const DeviceRecording& recording_;
  const std::vector<Frame>& frames_;
  const StackPaths& paths_;
  const NameSources& sources_;
};

}  // namespace ashlar
