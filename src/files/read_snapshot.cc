// SPDX-License-Identifier: Apache-2.0
//
// The first bytes after decompression distinguish pickle from JSON and from other files.
#include "files/read_snapshot.h"

#include <atomic>
#include <functional>
#include <new>
#include <utility>

#include "base/text.h"
#include "files/json_reader.h"
#include "files/other_formats.h"
#include "files/peekable_source.h"
#include "format/snapshot_pickle.h"

namespace ashlar {
namespace {

Result<Snapshot> read_from(std::unique_ptr<ByteSource> bytes, const ReadLimits& limits) {
  auto peekable = std::make_unique<PeekableSource>(std::move(bytes));
  PeekableSource& source = *peekable;
  const Result<std::string_view> first = source.peek(kFormatProbeBytes);
  if (!first.ok()) return first.status();
  if (first->empty()) return Status::format("the file is empty (expected a snapshot)");
  if (is_html(*first)) {
    Result<std::unique_ptr<ByteSource>> embedded = open_embedded_snapshot(std::move(peekable));
    if (!embedded.ok()) return embedded.status();
    if (*embedded != nullptr) return read_snapshot_pickle(**embedded, limits);
    return Status::format(describe_other_format("<html>"));
  }
  if (const std::string other = describe_other_format(*first); !other.empty()) {
    return Status::format(other);
  }
  if (first->front() == '\x80') return read_snapshot_pickle(source, limits);
  const size_t start = first->find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (start != std::string_view::npos && ((*first)[start] == '{' || (*first)[start] == '[')) {
    return read_snapshot_json(source, limits);
  }
  return Status::format(
      "byte 0: neither a pickle nor JSON (expected a snapshot written by PyTorch's "
      "_dump_snapshot or `ashlar export`)");
}

using Source = Result<std::unique_ptr<ByteSource>>;

// Reads the snapshot from the source that `open` returns. A failed allocation counts as an error of
// the file, because the file's contents determine how much memory reading needs.
Result<Snapshot> read_opened(const std::string& name, ReadOptions options,
                             const std::function<Source(const InputOptions&)>& open) {
  std::atomic<uint64_t> file_bytes = 0;
  options.input.file_bytes = &file_bytes;
  options.limits.file_bytes = &file_bytes;
  const auto read = [&]() -> Result<Snapshot> {
    Source input = open(options.input);
    if (!input.ok()) return input.status();
    return read_from(*std::move(input), options.limits);
  };
  try {
    Result<Snapshot> snapshot = read();
    if (snapshot.ok() || !snapshot.status().is(StatusKind::kFormat)) return snapshot;
    return Status::format(text(name, ": ", snapshot.status().message()));
  } catch (const std::bad_alloc&) {
    return out_of_memory_error(name);
  }
}

}  // namespace

Result<Snapshot> read_snapshot(const std::string& path, const ReadOptions& options) {
  return read_opened(path == "-" ? "standard input" : path, options,
                     [&](const InputOptions& input) { return open_input(path, input); });
}

Result<Snapshot> read_snapshot(const std::string& name, std::unique_ptr<ByteSource> bytes,
                               const ReadOptions& options) {
  return read_opened(name, options, [&](const InputOptions& input) {
    return open_input(std::move(bytes), input);
  });
}

Status out_of_memory_error(const std::string& name) {
  return Status::format(text(name, ": reading needs more memory than is available"));
}

}  // namespace ashlar
