// SPDX-License-Identifier: Apache-2.0
//
// Opening what a user names: a file or standard input, plain or compressed. How it is compressed is
// seen from its first bytes, never from its name. What comes out is a stream: no file, however
// cleverly made, is held in memory as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ashlar/status.h"
#include "format/byte_stream.h"

namespace ashlar {

struct InputOptions {
  // After decompression; a longer input is refused where this many bytes have come out of it.
  uint64_t most_bytes = uint64_t{64} << 30;
  // Compressed input is decompressed in a thread of its own, ahead of the reader.
  bool decompress_ahead = true;
  // Told now and then how much of a file has been read, on the thread that reads it; 0 for input
  // whose length nobody knows. False: nobody wants the rest, and reading fails with kTimeout.
  std::function<bool(double share)> watch{};
};

// "-" is standard input.
// kFormat: it cannot be opened, or later, from the source: it cannot be read, is damaged, cut off
// or too long. The messages do not repeat the path.
Result<std::unique_ptr<ByteSource>> open_input(const std::string& path,
                                               const InputOptions& options = {});

// The same for bytes that come from elsewhere.
Result<std::unique_ptr<ByteSource>> open_input(std::unique_ptr<ByteSource> bytes,
                                               const InputOptions& options = {});

}  // namespace ashlar
