// SPDX-License-Identifier: Apache-2.0
//
// The first byte after decompression distinguishes pickle from JSON.
#include "files/read_snapshot.h"

#include "base/text.h"
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

Result<Snapshot> read_opened(const std::string& name, Result<std::unique_ptr<ByteSource>> input,
                             const ReadLimits& limits) {
  Result<Snapshot> snapshot =
      input.ok() ? read_from(*std::move(input), limits) : Result<Snapshot>(input.status());
  if (snapshot.ok() || !snapshot.status().is(StatusKind::kFormat)) return snapshot;
  return Status::format(text(name, ": ", snapshot.status().message()));
}

}  // namespace

Result<Snapshot> read_snapshot(const std::string& path, const ReadOptions& options) {
  return read_opened(path == "-" ? "standard input" : path, open_input(path, options.input),
                     options.limits);
}

Result<Snapshot> read_snapshot(const std::string& name, std::unique_ptr<ByteSource> bytes,
                               const ReadOptions& options) {
  return read_opened(name, open_input(std::move(bytes), options.input), options.limits);
}

}  // namespace ashlar
