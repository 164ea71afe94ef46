// SPDX-License-Identifier: Apache-2.0
//
// The memory that each line of the user's code allocated: live at the peak, and in total. Computed
// once per device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/recording.h"
#include "analysis/training/categories.h"

namespace ashlar {

// Requested bytes and number of allocations. `*_at_peak` count allocations that are live or pending
// free at Timeline::reserved_peak; the other fields count all allocations made during the
// recording.
struct LineUse {
  size_t bytes_at_peak = 0;
  size_t count_at_peak = 0;
  size_t allocated_bytes = 0;
  size_t allocation_count = 0;

  void add(const LineUse& other);
  friend bool operator==(const LineUse&, const LineUse&) = default;
};

// A line of a file. `own` counts allocations whose innermost frame of user code is this line: those
// of the line itself and of libraries that it calls. `with_calls` counts allocations with this line
// anywhere in the stack; a recursive call counts once.
struct SourceLine {
  int64_t line = 0;  // 0: unknown; `function` then identifies the line
  std::string_view function{};
  LineUse own{};
  LineUse with_calls{};
  CategoryBytes categories_at_peak{};  // their sum is own.bytes_at_peak
};

struct SourceFile {
  std::string_view path{};          // as recorded; empty: unknown
  LineUse own{};                    // the sum over `lines`
  std::vector<SourceLine> lines{};  // ascending
};

// Allocations whose stacks have no user code, grouped by a label such as "library code".
struct UseOutsideUserCode {
  std::string name{};
  LineUse use{};
};

// total == the sum of files[i].own and outside_user_code[i].use.
struct SourceLines {
  LineUse total{};
  // Sorted by bytes at the peak, then by allocated bytes, largest first.
  std::vector<SourceFile> files{};
  std::vector<UseOutsideUserCode> outside_user_code{};
};

// Returns the lines, which are computed on first use and cached. Paths and functions point into the
// recording. Thread safe.
const SourceLines& source_lines_of(const DeviceRecording& recording);

}  // namespace ashlar
