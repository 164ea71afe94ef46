// SPDX-License-Identifier: Apache-2.0
//
// Decodes xz with liblzma.
#include <lzma.h>

#include "base/text.h"
#include "files/decoder.h"

namespace ashlar {
namespace {

// `xz -9` uses a dictionary of 64 MiB; a header can request 4 GiB.
constexpr uint64_t kMaxMemoryBytes = uint64_t{128} << 20;

class XzDecoder final : public Decoder {
 public:
  XzDecoder() : init_result_(lzma_stream_decoder(&stream_, kMaxMemoryBytes, LZMA_CONCATENATED)) {}
  ~XzDecoder() override { lzma_end(&stream_); }
  XzDecoder(const XzDecoder&) = delete;
  XzDecoder& operator=(const XzDecoder&) = delete;

  Result<Progress> decode(const Input& input, std::span<char> output) override {
    if (init_result_ != LZMA_OK) return failure(init_result_);
    stream_.next_in = reinterpret_cast<const uint8_t*>(input.bytes.data());
    stream_.avail_in = input.bytes.size();
    stream_.next_out = reinterpret_cast<uint8_t*>(output.data());
    stream_.avail_out = output.size();
    const lzma_ret result = lzma_code(&stream_, input.is_last ? LZMA_FINISH : LZMA_RUN);
    // LZMA_BUF_ERROR means no progress, which the caller detects by the counts.
    if (result != LZMA_OK && result != LZMA_STREAM_END && result != LZMA_BUF_ERROR) {
      return failure(result);
    }
    return Progress{.consumed = input.bytes.size() - stream_.avail_in,
                    .produced = output.size() - stream_.avail_out,
                    .is_complete = result == LZMA_STREAM_END};
  }

 private:
  static Status failure(lzma_ret code) {
    if (code == LZMA_MEMLIMIT_ERROR) {
      return Status::format("the xz data needs more than 128 MiB to decompress (expected less)");
    }
    return Status::format(text("the xz data is corrupt (liblzma error ", int{code},
                               "; expected a complete .xz file)"));
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
  lzma_ret init_result_;
};

}  // namespace

std::unique_ptr<Decoder> make_xz_decoder() { return std::make_unique<XzDecoder>(); }

}  // namespace ashlar
