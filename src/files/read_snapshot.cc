// SPDX-License-Identifier: Apache-2.0
//
// The first bytes after decompression distinguish pickle from JSON.
#include "files/read_snapshot.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "files/json_reader.h"
#include "files/peekable_source.h"
#include "format/snapshot_pickle.h"

namespace ashlar {
namespace {

Result<Snapshot> read_from(std::unique_ptr<ByteSource> bytes, const ReadLimits& limits) {
  constexpr size_t kPeekBytes = 64;
  PeekableSource source(std::move(bytes));
  const Result<std::string_view> first = source.peek(kPeekBytes);
  if (!first.ok()) return first.status();
  if (first->empty()) return Status::format("the file is empty (expected a snapshot)");
  if (first->front() == '\x80') return read_snapshot_pickle(source, limits);
  const size_t start = first->find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (start != std::string_view::npos && ((*first)[start] == '{' || (*first)[start] == '[')) {
    return read_snapshot_json(source, limits);
  }
  return Status::format(
      "byte 0: neither a pickle nor JSON (expected a snapshot written by PyTorch's "
      "_dump_snapshot or `ashlar export`)");
}

// Bounds the memory by the size of the file, so that a small file cannot exhaust memory. Recorded
// files need less than 200 bytes of memory per byte of the xz-compressed file. If the file has no
// size (a pipe or standard input), returns the limits unchanged.
ReadLimits limits_for(const std::string& path, ReadLimits limits) {
  constexpr size_t kBaseBytes = 32 * kMiB;
  constexpr size_t kBytesPerFileByte = 2048;
  std::error_code error;
  const uintmax_t file_bytes = std::filesystem::file_size(path, error);
  if (error || file_bytes > limits.value_bytes / kBytesPerFileByte) return limits;
  limits.value_bytes = std::min(limits.value_bytes, kBaseBytes + kBytesPerFileByte * file_bytes);
  return limits;
}

Result<Snapshot> read_opened(const std::string& name, Result<std::unique_ptr<ByteSource>> input,
                             const ReadLimits& limits) {
  const auto read = [&]() -> Result<Snapshot> {
    if (!input.ok()) return input.status();
    try {
      return read_from(*std::move(input), limits);
    } catch (const std::bad_alloc&) {
      return Status::format("reading needs more memory than is available");
    }
  };
  Result<Snapshot> snapshot = read();
  if (snapshot.ok() || !snapshot.status().is(StatusKind::kFormat)) return snapshot;
  return Status::format(text(name, ": ", snapshot.status().message()));
}

}  // namespace

Result<Snapshot> read_snapshot(const std::string& path, const ReadOptions& options) {
  Result<std::unique_ptr<ByteSource>> input = open_input(path, options.input);
  if (path == "-") return read_opened("standard input", std::move(input), options.limits);
  return read_opened(path, std::move(input), limits_for(path, options.limits));
}

Result<Snapshot> read_snapshot(const std::string& name, std::unique_ptr<ByteSource> bytes,
                               const ReadOptions& options) {
  return read_opened(name, open_input(std::move(bytes), options.input), options.limits);
}

}  // namespace ashlar
