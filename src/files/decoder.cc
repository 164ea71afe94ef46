// SPDX-License-Identifier: Apache-2.0
//
// DecodedSource: reads compressed input until the decoder produces output.
#include "files/decoder.h"

namespace ashlar {
namespace {

constexpr size_t kDecodedBufferBytes = size_t{256} << 10;

}  // namespace

DecodedSource::DecodedSource(std::unique_ptr<ByteSource> input, std::unique_ptr<Decoder> decoder)
    : input_(std::move(input)), decoder_(std::move(decoder)), buffer_(kDecodedBufferBytes) {}

Result<size_t> DecodedSource::read(std::span<char> into) {
  while (true) {
    if (unread_.empty() && !has_ended_) {
      const Result<size_t> got = input_->read(buffer_);
      if (!got.ok()) return got.status();
      has_ended_ = *got == 0;
      unread_ = std::span<const char>(buffer_).first(*got);
    }
    const Result<Decoder::Progress> progress =
        decoder_->decode({.bytes = unread_, .is_last = has_ended_}, into);
    if (!progress.ok()) return progress.status();
    unread_ = unread_.subspan(progress->consumed);
    if (progress->produced > 0) return progress->produced;
    if (progress->consumed > 0 || (unread_.empty() && !has_ended_)) continue;
    if (progress->is_complete && has_ended_) return size_t{0};
    return Status::format("the compressed data is truncated (expected more bytes)");
  }
}

}  // namespace ashlar
