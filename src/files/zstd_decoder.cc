// SPDX-License-Identifier: Apache-2.0
//
// Zstandard decoder over libzstd. The library's default limits the window to 128 MiB.
#include <zstd.h>

#include "base/text.h"
#include "files/decoder.h"

namespace ashlar {
namespace {

class ZstdDecoder final : public Decoder {
 public:
  Result<Progress> decode(const Input& input, std::span<char> output) override {
    if (stream_ == nullptr) return Status::format("zstd: out of memory");
    ZSTD_inBuffer in = {input.bytes.data(), input.bytes.size(), 0};
    ZSTD_outBuffer out = {output.data(), output.size(), 0};
    // A call without input after the end of a frame would start the next frame.
    if (is_complete_ && in.size == 0) return Progress{.is_complete = true};
    const size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
    if (ZSTD_isError(left) != 0) {
      return Status::format(text("the zstd data is corrupt (", ZSTD_getErrorName(left),
                                 "; expected a complete .zst file)"));
    }
    is_complete_ = left == 0;
    return Progress{.consumed = in.pos, .produced = out.pos, .is_complete = is_complete_};
  }

 private:
  std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream_{ZSTD_createDStream(),
                                                                   ZSTD_freeDStream};
  bool is_complete_ = false;
};

}  // namespace

std::unique_ptr<Decoder> make_zstd_decoder() { return std::make_unique<ZstdDecoder>(); }

}  // namespace ashlar
