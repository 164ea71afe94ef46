// SPDX-License-Identifier: Apache-2.0
//
// Reads a source in a separate thread, a few buffers ahead of the consumer, so that decompression
// and parsing overlap.
#pragma once

#include <array>
#include <condition_variable>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "format/byte_stream.h"

namespace ashlar {

class ReadAhead final : public ByteSource {
 public:
  // kDeviceFault: no thread could be created.
  static Result<std::unique_ptr<ByteSource>> start(std::unique_ptr<ByteSource> input);
  // Stops the thread. Waits for its read of the input, if one is in progress.
  ~ReadAhead() override;
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Throws what reading the input has thrown, such as std::bad_alloc.
  Result<size_t> read(std::span<char> into) override;

 private:
  static constexpr size_t kBufferCount = 4;

  explicit ReadAhead(std::unique_ptr<ByteSource> input);
  void run() noexcept;
  void fill_all();

  // A buffer belongs to the thread until it is filled, then to the consumer until it is used up.
  std::unique_ptr<ByteSource> input_;
  std::array<std::vector<char>, kBufferCount> buffers_;
  std::array<size_t, kBufferCount> filled_bytes_{};
  size_t used_bytes_ = 0;  // bytes that the consumer has taken from its current buffer

  Mutex mutex_;
  std::condition_variable changed_;
  // The numbers of buffers filled and used up since the start. The n-th filled buffer is
  // buffers_[n % kBufferCount].
  size_t filled_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  size_t used_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  bool has_ended_ ASHLAR_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ASHLAR_GUARDED_BY(mutex_) = false;
  Status failure_ ASHLAR_GUARDED_BY(mutex_);
  std::exception_ptr thrown_ ASHLAR_GUARDED_BY(mutex_);  // by the thread
  std::thread thread_;
};

}  // namespace ashlar
