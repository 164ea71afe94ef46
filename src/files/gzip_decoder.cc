// SPDX-License-Identifier: Apache-2.0
//
// Decodes gzip with zlib.
#include <zlib.h>

#include <algorithm>

#include "base/text.h"
#include "files/decoder.h"

namespace ashlar {
namespace {

constexpr int kGzipMaxWindowBits = 16 + MAX_WBITS;
constexpr size_t kMaxCallBytes = size_t{1} << 30;  // zlib's counters have 32 bits

class GzipDecoder final : public Decoder {
 public:
  GzipDecoder() : init_result_(inflateInit2(&stream_, kGzipMaxWindowBits)) {}
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  Result<Progress> decode(const Input& input, std::span<char> output) override {
    if (init_result_ != Z_OK) return Status::format("gzip: out of memory");
    if (input.bytes.empty()) return Progress{.is_complete = is_complete_};
    if (is_complete_) inflateReset(&stream_);  // the file continues with another gzip member
    // zlib does not write to its input, although the type is not const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.bytes.data()));
    stream_.avail_in = static_cast<uInt>(std::min(input.bytes.size(), kMaxCallBytes));
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(std::min(output.size(), kMaxCallBytes));
    const Progress before = {.consumed = stream_.avail_in, .produced = stream_.avail_out};
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      return Status::format(
          text("the gzip data is corrupt (zlib error ", result, "; expected a complete .gz file)"));
    }
    is_complete_ = result == Z_STREAM_END;
    return Progress{.consumed = before.consumed - stream_.avail_in,
                    .produced = before.produced - stream_.avail_out,
                    .is_complete = is_complete_};
  }

 private:
  z_stream stream_{};
  int init_result_;
  bool is_complete_ = false;
};

}  // namespace

std::unique_ptr<Decoder> make_gzip_decoder() { return std::make_unique<GzipDecoder>(); }

}  // namespace ashlar
