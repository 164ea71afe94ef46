// SPDX-License-Identifier: Apache-2.0
//
// Reads a source in a thread of its own, a few buffers ahead of who wants the bytes: decompression
// and reading then take the time of the longer of the two.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "format/byte_stream.h"

namespace ashlar {

class ReadAhead final : public ByteSource {
 public:
  // kDeviceFault: the system has no thread for it.
  static Result<std::unique_ptr<ByteSource>> start(std::unique_ptr<ByteSource> input);
  // Waits for a read of the input that is under way.
  ~ReadAhead() override;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  Result<size_t> read(std::span<char> into) override;

 private:
  static constexpr size_t kBufferCount = 4;

  explicit ReadAhead(std::unique_ptr<ByteSource> input);
  void run();

  // The thread's, until it has filled a buffer; then the reader's, until it has used it up.
  std::unique_ptr<ByteSource> input_;
  std::array<std::vector<char>, kBufferCount> buffers_;
  std::array<size_t, kBufferCount> filled_bytes_{};
  size_t used_bytes_ = 0;  // of the reader's buffer

  Mutex mutex_;
  std::condition_variable changed_;
  // Counted since the start; the buffer of number n is n modulo their count.
  size_t filled_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  size_t used_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  bool has_ended_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  Status failure_ ASHLAR_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ashlar
