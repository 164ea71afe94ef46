// SPDX-License-Identifier: Apache-2.0
//
// Refills the buffer, and moves the bytes that are not consumed yet to its front.
#include "format/byte_reader.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"

namespace ashlar {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;

}  // namespace

ByteReader::ByteReader(ByteSource& source) : source_(source), buffer_(kBufferBytes) {}

std::string_view ByteReader::take_some(uint64_t max_bytes) {
  if (end_ == next_ && !fill(1)) return {};
  const size_t count = static_cast<size_t>(std::min<uint64_t>(max_bytes, end_ - next_));
  const std::string_view bytes(buffer_.data() + next_, count);
  next_ += count;
  return bytes;
}

// Moves unread bytes to the front of the buffer, then reads until it has `count` bytes.
bool ByteReader::fill(size_t count) {
  ASHLAR_CHECK(count <= kMaxTakeBytes);
  if (!failure_.ok()) return false;
  std::memmove(buffer_.data(), buffer_.data() + next_, end_ - next_);
  base_ += next_;
  end_ -= next_;
  next_ = 0;
  while (end_ < count) {
    const Result<size_t> got = source_.read(std::span<char>(buffer_).subspan(end_));
    if (!got.ok()) failure_ = got.status();
    if (!got.ok() || *got == 0) return false;
    end_ += *got;
  }
  return true;
}

}  // namespace ashlar
