// SPDX-License-Identifier: Apache-2.0
//
// The edits of `ashlar whatif` as typed: what changes, which functions, lines or categories are
// selected, and when. Parsing checks only the form; NameResolver looks up the names. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/training/categories.h"
#include "ashlar/status.h"

namespace ashlar {

// One condition on a stack or an allocation.
struct SelectorTerm {
  enum class Kind : uint8_t {
    kFunction,  // FILE:NAME
    kLines,     // FILE:FIRST-LAST, a function by its lines
    kLine,      // FILE:LINE, everything under the line
    kCategory,  // class:CATEGORY
    kFrame,     // frame:REGEX
  };

  Kind kind = Kind::kLine;
  std::string text{};  // as typed
  std::string file{};  // a path, or the last components of one
  std::string name{};  // kFunction: the function's name; kFrame: the regular expression
  int64_t first_line = 0;
  int64_t last_line = 0;  // kLine: equal to first_line
  Category category = Category::kUnknown;

  bool is_function() const { return kind == Kind::kFunction || kind == Kind::kLines; }
};

// An allocation matches if all terms match.
struct Selector {
  std::string text{};  // as typed
  std::vector<SelectorTerm> terms{};
};

// The moment at which `--free` frees.
struct FreeMoment {
  enum class Kind : uint8_t {
    kEndOfFunction,  // end:F
    kLeaveLine,      // leave:FILE:LINE
    kNextLine,       // next:FILE:LINE
    kStep,           // step: the end of the next optimizer step
  };

  Kind kind = Kind::kStep;
  std::string text{};
  SelectorTerm place{};  // a function or a line; not used by kStep
};

enum class EditKind : uint8_t {
  kRecompute,
  kOffload,
  kFree,
  kDrop,
  kScale,
  kBatch,
  kKeepGradients,
  kSetToNone,
};

struct Edit {
  EditKind kind = EditKind::kDrop;
  std::string text{};              // as typed: "--drop class:optimizer_state"
  Selector selector{};             // kRecompute, kOffload, kFree, kDrop, kScale
  std::optional<FreeMoment> at{};  // kFree
  double factor = 1;               // kScale, kBatch
};

// Returns the option of an edit: "--recompute".
std::string_view option_of(EditKind kind);
// Returns whether the option of an edit has a value.
bool has_value(EditKind kind);

// Parses the value of an option: "model.py:Block.forward", "GROUP=0.5". An edit of kind kFree also
// needs parse_at(). kInvalidArgument: the value has another form; the message names the expected
// one.
Result<Edit> parse_edit(EditKind kind, std::string_view value);
// Parses the value of --at and adds it to the edit. kInvalidArgument: as for parse_edit().
// REQUIRES: edit.kind == EditKind::kFree.
Status parse_at(std::string_view value, Edit& edit);

// Returns the word for a category in a selector: "optimizer_state".
std::string selector_name(Category category);

}  // namespace ashlar
