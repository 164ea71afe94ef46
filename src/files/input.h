// SPDX-License-Identifier: Apache-2.0
//
// Opens files and standard input, plain or compressed with xz, zstd or gzip. The compression is
// detected from the first bytes, not from the name. The result is a stream; no input is ever held
// in memory as a whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ashlar/status.h"
#include "format/byte_stream.h"

namespace ashlar {

struct InputOptions {
  // If not null, incremented by the number of bytes that are read, before decompression.
  // REQUIRES: outlives the source.
  std::atomic<uint64_t>* file_bytes = nullptr;
  // Limit on the decompressed size. Reading fails with kFormat when the limit is exceeded.
  uint64_t max_bytes = uint64_t{64} << 30;
  // Decompress in a separate thread, ahead of the reader.
  bool decompress_ahead = true;
  // Called regularly with the fraction of the file that has been read, 0 if the length is unknown,
  // also while waiting for a pipe. Runs on the thread that reads the file, which is a separate one
  // while decompressing ahead. If it returns false, reading fails with kTimeout.
  std::function<bool(double fraction)> on_progress{};
};

// Opens a file; "-" is standard input.
// open_input() and read() of its result return these errors. kFormat: the file cannot be opened or
// read, or its data is corrupt, truncated or too long. kTimeout: on_progress returned false.
// kDeviceFault: no thread could be created. Messages do not contain the path.
Result<std::unique_ptr<ByteSource>> open_input(const std::string& path,
                                               const InputOptions& options = {});

// Like open_input() of a path, but reads `bytes`.
Result<std::unique_ptr<ByteSource>> open_input(std::unique_ptr<ByteSource> bytes,
                                               const InputOptions& options = {});

}  // namespace ashlar
