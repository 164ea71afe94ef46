// SPDX-License-Identifier: Apache-2.0
//
// A ring of buffers between the reading thread and the consumer.
#include "files/read_ahead.h"

#include "base/thread.h"

namespace ashlar {
namespace {

constexpr size_t kReadAheadBytes = size_t{1} << 20;

}  // namespace

// Uses new because std::make_unique cannot call the private constructor.
Result<std::unique_ptr<ByteSource>> ReadAhead::start(std::unique_ptr<ByteSource> input) {
  std::unique_ptr<ReadAhead> made(new ReadAhead(std::move(input)));
  ReadAhead* running = made.get();
  Result<std::thread> thread = start_thread([running] { running->run(); });
  if (!thread.ok()) return thread.status();
  made->thread_ = *std::move(thread);
  return std::unique_ptr<ByteSource>(std::move(made));
}

ReadAhead::ReadAhead(std::unique_ptr<ByteSource> input) : input_(std::move(input)) {
  for (std::vector<char>& buffer : buffers_) buffer.resize(kReadAheadBytes);
}

ReadAhead::~ReadAhead() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<size_t> ReadAhead::read(std::span<char> into) {
  size_t number = 0;
  {
    MutexLock lock(mutex_);
    while (used_count_ == filled_count_ && !has_ended_) lock.wait(changed_);
    if (used_count_ == filled_count_) {
      if (thrown_ != nullptr) std::rethrow_exception(thrown_);
      if (!failure_.ok()) return failure_;
      return size_t{0};
    }
    number = used_count_ % kBufferCount;
  }
  const std::string_view rest(buffers_[number].data() + used_bytes_,
                              filled_bytes_[number] - used_bytes_);
  const size_t count = rest.copy(into.data(), into.size());
  used_bytes_ += count;
  if (count == rest.size()) {
    used_bytes_ = 0;
    {
      MutexLock lock(mutex_);
      ++used_count_;
    }
    changed_.notify_all();
  }
  return count;
}

void ReadAhead::run() noexcept {
  try {
    fill_all();
  } catch (...) {
    MutexLock lock(mutex_);
    thrown_ = std::current_exception();
    has_ended_ = true;
    changed_.notify_all();
  }
}

void ReadAhead::fill_all() {
  while (true) {
    size_t number = 0;
    {
      MutexLock lock(mutex_);
      while (filled_count_ - used_count_ == kBufferCount && !is_stopping_) lock.wait(changed_);
      if (is_stopping_) return;
      number = filled_count_ % kBufferCount;
    }
    const Result<size_t> got = input_->read(buffers_[number]);
    MutexLock lock(mutex_);
    changed_.notify_all();
    has_ended_ = !got.ok() || *got == 0;
    if (!got.ok()) failure_ = got.status();
    if (has_ended_) return;
    filled_bytes_[number] = *got;
    ++filled_count_;
  }
}

}  // namespace ashlar
