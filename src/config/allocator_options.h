// SPDX-License-Identifier: Apache-2.0
//
// The options of an allocator as text, "expandable_segments:True,max_split_size_mb:512": PyTorch's
// names and grammar, so that its settings can be brought along, but strict: whatever is not
// understood is an error that names the option, the value, and what was expected. The one table of
// options is in allocator_option_table.cc. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ashlar/options.h"
#include "ashlar/status.h"
#include "config/option_text.h"

namespace ashlar {

// One option. The texts are for people: they stand in messages, `ashlar config`, and
// docs/guide/options.md.
struct OptionRow {
  std::string_view name;
  std::string_view alias = {};    // another name for the same; empty: there is none
  std::string_view type;          // "boolean", "size", "fraction", ...
  std::string_view unit = {};     // "MiB"; empty: there is none
  std::string_view default_text;  // a value with the same effect as none
  std::string_view range;         // completes "expected …"
  std::string_view help;
  // kInvalidArgument: the value is wrong; then `options` is untouched.
  Status (*set)(const OptionRow& row, const OptionAssignment& given, AllocatorOptions& options);
  // The value, in a form that `set` reads back to the same.
  std::string (*print)(const OptionRow& row, const AllocatorOptions& options);
};

std::span<const OptionRow> allocator_option_table();

// "paged": as option engine has it.
std::string engine_text(EngineKind engine);

// `base` with the changes that the text asks for. If `base` is pytorch_compatible, the four options
// that PyTorch resets when its settings are read again go back to their defaults unless the text
// sets them: max_split_size_mb, max_non_split_rounding_mb, roundup_power2_divisions and
// garbage_collection_threshold. A text with compat:pytorch that names no engine means the classic.
// kInvalidArgument: the text is wrong, or the result is (see check_allocator_options).
Result<AllocatorOptions> parse_allocator_options(std::string_view text,
                                                 const AllocatorOptions& base = {});

// Every option that has not its default value, in the order of the table; empty: all have. The
// engine is named under compat:pytorch, too. It
// parses back to the same options if check_allocator_options finds nothing wrong with them.
std::string format_allocator_options(const AllocatorOptions& options);

// For options that were not read from text. kInvalidArgument: a value is out of its range, or does
// not go together with another; the message names the option.
Status check_allocator_options(const AllocatorOptions& options);

}  // namespace ashlar
