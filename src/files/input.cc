// SPDX-License-Identifier: Apache-2.0
//
// Sources for file descriptors and size limits, and the pipeline that open_input() builds.
#include "files/input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "base/units.h"
#include "files/decoder.h"
#include "files/peekable_source.h"
#include "files/read_ahead.h"

namespace ashlar {
namespace {

constexpr const char* kCancelled = "reading was cancelled";

class DescriptorSource final : public ByteSource {
 public:
  using OnProgress = std::function<bool(double fraction)>;

  // An invalid `file` selects standard input, which stays open.
  DescriptorSource(UniqueFd file, OnProgress on_progress)
      : file_(std::move(file)), on_progress_(std::move(on_progress)) {
    struct stat found {};
    const bool is_file = ::fstat(descriptor(), &found) == 0 && S_ISREG(found.st_mode);
    if (is_file) file_bytes_ = static_cast<uint64_t>(std::max<off_t>(found.st_size, 0));
  }

  Result<size_t> read(std::span<char> into) override {
    while (true) {
      if (!wait_until_readable()) return Status::timeout(kCancelled);
      const ssize_t got = ::read(descriptor(), into.data(), into.size());
      if (got >= 0) {
        read_bytes_ += static_cast<uint64_t>(got);
        return static_cast<size_t>(got);
      }
      if (errno != EINTR && errno != EAGAIN) {
        return Status::format(text("cannot be read: ", std::strerror(errno)));
      }
    }
  }

 private:
  int descriptor() const { return file_.valid() ? file_.get() : STDIN_FILENO; }

  // Polls the callback while waiting, because a pipe can block forever. Returns false if the
  // callback cancels. A named pipe is not readable before a writer has opened it.
  bool wait_until_readable() const {
    const int poll_interval_ms = on_progress_ ? 200 : -1;
    const double whole = static_cast<double>(file_bytes_);
    const double fraction = file_bytes_ > 0 ? static_cast<double>(read_bytes_) / whole : 0;
    pollfd waiting{descriptor(), POLLIN, 0};
    while (!on_progress_ || on_progress_(std::min(fraction, 1.0))) {
      const int ready = ::poll(&waiting, 1, poll_interval_ms);
      if (ready > 0 || (ready < 0 && errno != EINTR)) return true;  // read(2) reports errors
    }
    return false;
  }

  UniqueFd file_;
  OnProgress on_progress_;
  uint64_t file_bytes_ = 0;  // 0 if unknown
  uint64_t read_bytes_ = 0;
};

// Polls on_progress before each read of a source of unknown length.
class PolledSource final : public ByteSource {
 public:
  PolledSource(std::unique_ptr<ByteSource> input, std::function<bool(double fraction)> on_progress)
      : input_(std::move(input)), on_progress_(std::move(on_progress)) {}

  Result<size_t> read(std::span<char> into) override {
    if (!on_progress_(0)) return Status::timeout(kCancelled);
    return input_->read(into);
  }

 private:
  std::unique_ptr<ByteSource> input_;
  std::function<bool(double fraction)> on_progress_;
};

// Counts the bytes that are read.
class CountingSource final : public ByteSource {
 public:
  // `total` also counts the bytes; may be null.
  CountingSource(std::unique_ptr<ByteSource> input, std::atomic<uint64_t>* total)
      : input_(std::move(input)), total_(total) {}

  Result<size_t> read(std::span<char> into) override {
    const Result<size_t> got = input_->read(into);
    if (!got.ok()) return got;
    read_bytes_ += *got;
    if (total_ != nullptr) total_->fetch_add(*got, std::memory_order_relaxed);
    return got;
  }
  uint64_t read_bytes() const { return read_bytes_; }

 private:
  std::unique_ptr<ByteSource> input_;
  std::atomic<uint64_t>* const total_;
  uint64_t read_bytes_ = 0;
};

// Limits the number of bytes and, if the input is decompressed, the ratio of decompressed to
// compressed bytes. Recorded files have ratios of 10 to 20.
class LimitedSource final : public ByteSource {
 public:
  // `compressed` is the source that `input` decompresses, or null.
  LimitedSource(std::unique_ptr<ByteSource> input, const CountingSource* compressed,
                uint64_t max_bytes)
      : input_(std::move(input)), compressed_(compressed), max_bytes_(max_bytes) {}

  Result<size_t> read(std::span<char> into) override {
    constexpr uint64_t kExemptBytes = 8 * kMiB;
    constexpr uint64_t kMaxRatio = 1000;
    const Result<size_t> got = input_->read(into);
    if (!got.ok()) return got;
    read_bytes_ += *got;
    if (read_bytes_ > max_bytes_) {
      return Status::format(
          text("has more than ", format_bytes(max_bytes_), " after decompression (expected less)"));
    }
    if (compressed_ != nullptr &&
        read_bytes_ > kExemptBytes + kMaxRatio * compressed_->read_bytes()) {
      return Status::format(text("expands to more than ", kMaxRatio,
                                 " times its size (expected a snapshot, which expands 10 to 20 "
                                 "times)"));
    }
    return got;
  }

 private:
  std::unique_ptr<ByteSource> input_;
  const CountingSource* compressed_;
  uint64_t max_bytes_;
  uint64_t read_bytes_ = 0;
};

constexpr size_t kMagicBytes = 6;

std::unique_ptr<Decoder> decoder_for(std::string_view first_bytes) {
  if (first_bytes.starts_with(std::string_view("\xfd\x37zXZ\0", 6))) return make_xz_decoder();
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd")) return make_zstd_decoder();
  if (first_bytes.starts_with("\x1f\x8b")) return make_gzip_decoder();
  return nullptr;
}

Result<std::unique_ptr<ByteSource>> decode_input(std::unique_ptr<ByteSource> bytes,
                                                 const InputOptions& options);

}  // namespace

// O_NONBLOCK, because opening a named pipe would block until a writer opens it.
Result<std::unique_ptr<ByteSource>> open_input(const std::string& path,
                                               const InputOptions& options) {
  UniqueFd file;
  if (path != "-") {
    file = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) return Status::format(text("cannot be opened: ", std::strerror(errno)));
    struct stat found {};
    if (::fstat(file.get(), &found) == 0 && S_ISDIR(found.st_mode)) {
      return Status::format("is a folder (expected a snapshot file)");
    }
  }
  return decode_input(std::make_unique<DescriptorSource>(std::move(file), options.on_progress),
                      options);
}

Result<std::unique_ptr<ByteSource>> open_input(std::unique_ptr<ByteSource> bytes,
                                               const InputOptions& options) {
  if (options.on_progress) {
    bytes = std::make_unique<PolledSource>(std::move(bytes), options.on_progress);
  }
  return decode_input(std::move(bytes), options);
}

namespace {

Result<std::unique_ptr<ByteSource>> decode_input(std::unique_ptr<ByteSource> bytes,
                                                 const InputOptions& options) {
  auto counted = std::make_unique<CountingSource>(std::move(bytes), options.file_bytes);
  const CountingSource* const raw = counted.get();
  auto sniffed = std::make_unique<PeekableSource>(std::move(counted));
  const Result<std::string_view> first = sniffed->peek(kMagicBytes);
  if (!first.ok()) return first.status();
  std::unique_ptr<Decoder> decoder = decoder_for(*first);
  std::unique_ptr<ByteSource> source = std::move(sniffed);
  const CountingSource* compressed = nullptr;
  if (decoder != nullptr) {
    compressed = raw;
    source = std::make_unique<DecodedSource>(std::move(source), std::move(decoder));
  }
  source = std::make_unique<LimitedSource>(std::move(source), compressed, options.max_bytes);
  if (compressed == nullptr || !options.decompress_ahead) return source;
  return ReadAhead::start(std::move(source));
}

}  // namespace
}  // namespace ashlar
