// SPDX-License-Identifier: Apache-2.0
//
// Streaming decompression: one decoder per format, and the ByteSource that drives it. Not thread
// safe.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ashlar/status.h"
#include "format/byte_stream.h"

namespace ashlar {

class Decoder {
 public:
  struct Input {
    std::span<const char> bytes{};
    bool is_last = false;  // the input ends after `bytes`
  };
  struct Progress {
    size_t consumed = 0;
    size_t produced = 0;
    bool is_complete = false;  // the input may end here
  };

  virtual ~Decoder() = default;
  // Decodes some of the input into `output`. kFormat: the data is corrupt or requires too much
  // memory.
  virtual Result<Progress> decode(const Input& input, std::span<char> output) = 0;
};

// Like xz(1), zstd(1) and gzip(1), these decoders decompress concatenated streams as one.
std::unique_ptr<Decoder> make_xz_decoder();
std::unique_ptr<Decoder> make_zstd_decoder();
std::unique_ptr<Decoder> make_gzip_decoder();

class DecodedSource final : public ByteSource {
 public:
  DecodedSource(std::unique_ptr<ByteSource> input, std::unique_ptr<Decoder> decoder);
  // kFormat: the data is corrupt, is truncated or requires too much memory. Other errors are those
  // of the input.
  Result<size_t> read(std::span<char> into) override;

 private:
  std::unique_ptr<ByteSource> input_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<char> buffer_;
  std::span<const char> unread_;  // the part of buffer_ that is not decoded yet
  bool has_ended_ = false;        // input_ is exhausted
};

}  // namespace ashlar
