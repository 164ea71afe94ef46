// SPDX-License-Identifier: Apache-2.0
//
// Decompression as a stream: a decoder for each format, and the source that feeds it.
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
    bool is_last = false;  // nothing comes after these
  };
  struct Progress {
    size_t consumed = 0;
    size_t produced = 0;
    bool is_complete = false;  // the input may end here
  };

  virtual ~Decoder() = default;
  // kFormat: damaged, or asks for more memory than decompression may have.
  virtual Result<Progress> decode(const Input& input, std::span<char> output) = 0;
};

// Streams one after the other count as one, as for the programs of that name.
std::unique_ptr<Decoder> make_xz_decoder();
std::unique_ptr<Decoder> make_zstd_decoder();
std::unique_ptr<Decoder> make_gzip_decoder();

class DecodedSource final : public ByteSource {
 public:
  DecodedSource(std::unique_ptr<ByteSource> input, std::unique_ptr<Decoder> decoder);
  // kFormat also where the input was cut off.
  Result<size_t> read(std::span<char> into) override;

 private:
  std::unique_ptr<ByteSource> input_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<char> buffer_;
  std::span<const char> rest_;  // of the buffer
  bool has_ended_ = false;      // the input has
};

}  // namespace ashlar
