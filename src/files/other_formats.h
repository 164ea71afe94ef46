// SPDX-License-Identifier: Apache-2.0
//
// Recognizes, by their first bytes, files that users pass by mistake instead of a snapshot, and
// extracts the snapshot from an HTML page that PyTorch's memory_viz wrote. Thread safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "files/peekable_source.h"
#include "format/byte_stream.h"

namespace ashlar {

// The number of leading bytes of a file that describe_other_format() and is_html() should get.
inline constexpr size_t kFormatProbeBytes = 4096;

// Returns an error message without its subject, such as "is a Git LFS pointer, not the file itself:
// run `git lfs pull` to download the file". Returns an empty string if the file may be a snapshot.
// REQUIRES: `first_bytes` is not empty.
std::string describe_other_format(std::string_view first_bytes);

bool is_html(std::string_view first_bytes);

// Returns the first snapshot in an HTML page of memory_viz, which contains the pickle in base64.
// The result is null if the page contains no snapshot. Errors are those of reading the page;
// read() of the result returns kFormat for invalid base64.
Result<std::unique_ptr<ByteSource>> open_embedded_snapshot(std::unique_ptr<PeekableSource> page);

}  // namespace ashlar
