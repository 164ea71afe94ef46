// SPDX-License-Identifier: Apache-2.0
//
// Allocator options as text, such as "expandable_segments:True,max_split_size_mb:512". PyTorch's
// options have the same names and grammar as in PyTorch, so its settings can be reused, but parsing
// is strict: an error names the option, the value and what was expected. The table of options is in
// allocator_option_table.cc. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ashlar/options.h"
#include "ashlar/status.h"
#include "config/option_text.h"

namespace ashlar {

// A row of the option table, which describes one option. Its strings appear in messages, `ashlar
// config` and docs/reference/options.md.
struct OptionRow {
  std::string_view name;
  std::string_view alias = {};    // another name for the option; may be empty
  std::string_view type;          // "boolean", "size", "fraction", ...
  std::string_view unit = {};     // "MiB"; empty if the option has no unit
  std::string_view default_text;  // a value with the same effect as leaving the option out
  std::string_view range;         // completes "expected …"
  std::string_view help;
  // Parses the value and sets the option. kInvalidArgument: the value is wrong; `options` is
  // unchanged.
  Status (*set)(const OptionRow& row, const OptionAssignment& given, AllocatorOptions& options);
  // Returns the value in a form that `set` accepts.
  std::string (*print)(const OptionRow& row, const AllocatorOptions& options);
};

std::span<const OptionRow> allocator_option_table();

// Returns the name of an engine as in option `engine`, such as "paged".
std::string engine_text(EngineKind engine);

// Applies the text to `base`. If `base` is pytorch_compatible, first resets to their defaults the
// four options that PyTorch resets whenever it parses its settings again: max_split_size_mb,
// max_non_split_rounding_mb, roundup_power2_divisions and garbage_collection_threshold.
// compat:pytorch selects the classic engine, unless `engine` or `backend` selects another engine.
// kInvalidArgument: the text or the result is invalid (see check_allocator_options).
Result<AllocatorOptions> parse_allocator_options(std::string_view text,
                                                 const AllocatorOptions& base = {});

// Formats the non-default options in table order; empty if there are none. Under compat:pytorch the
// engine is always included. parse_allocator_options accepts the result if check_allocator_options
// accepts `options`.
std::string format_allocator_options(const AllocatorOptions& options);

// Checks options that were not parsed from text. kInvalidArgument: a value is out of range or
// conflicts with another value; the message names the option.
Status check_allocator_options(const AllocatorOptions& options);

}  // namespace ashlar
