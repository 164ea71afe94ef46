// Files and standard input, a look at the first bytes, and the sources stacked on each other.
#include "files/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ashlar/unique_fd.h"
#include "base/text.h"
#include "base/units.h"
#include "files/decoder.h"
#include "files/read_ahead.h"
#include "files/sniffed_source.h"

namespace ashlar {
namespace {

class DescriptorSource final : public ByteSource {
 public:
  // Without an own descriptor: standard input, which is not ours to close.
  explicit DescriptorSource(UniqueFd own) : own_(std::move(own)) {}

  Result<size_t> read(std::span<char> into) override {
    const int descriptor = own_.valid() ? own_.get() : STDIN_FILENO;
    while (true) {
      const ssize_t got = ::read(descriptor, into.data(), into.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return Status::format(text("cannot be read: ", std::strerror(errno)));
    }
  }

 private:
  UniqueFd own_;
};

class LimitedSource final : public ByteSource {
 public:
  LimitedSource(std::unique_ptr<ByteSource> input, uint64_t most_bytes)
      : input_(std::move(input)), most_bytes_(most_bytes), left_(most_bytes) {}

  Result<size_t> read(std::span<char> into) override {
    const Result<size_t> got = input_->read(into);
    if (!got.ok()) return got.status();
    if (*got > left_) {
      return Status::format(text("has more than ", format_bytes(most_bytes_),
                                 " when decompressed (expected less, unless the limit is raised)"));
    }
    left_ -= *got;
    return *got;
  }

 private:
  std::unique_ptr<ByteSource> input_;
  uint64_t most_bytes_;
  uint64_t left_;
};

constexpr size_t kMagicBytes = 6;

std::unique_ptr<Decoder> decoder_for(std::string_view first_bytes) {
  if (first_bytes.starts_with(std::string_view("\xfd\x37zXZ\0", 6))) return make_xz_decoder();
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd")) return make_zstd_decoder();
  if (first_bytes.starts_with("\x1f\x8b")) return make_gzip_decoder();
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_input(const std::string& path,
                                               const InputOptions& options) {
  UniqueFd own;
  if (path != "-") {
    own = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!own.valid()) return Status::format(text("cannot be opened: ", std::strerror(errno)));
  }
  return open_input(std::make_unique<DescriptorSource>(std::move(own)), options);
}

Result<std::unique_ptr<ByteSource>> open_input(std::unique_ptr<ByteSource> bytes,
                                               const InputOptions& options) {
  auto sniffed = std::make_unique<SniffedSource>(std::move(bytes));
  const Result<std::string_view> first = sniffed->peek(kMagicBytes);
  if (!first.ok()) return first.status();
  std::unique_ptr<Decoder> decoder = decoder_for(*first);
  std::unique_ptr<ByteSource> source = std::move(sniffed);
  const bool is_compressed = decoder != nullptr;
  if (is_compressed) {
    source = std::make_unique<DecodedSource>(std::move(source), std::move(decoder));
  }
  source = std::make_unique<LimitedSource>(std::move(source), options.most_bytes);
  if (!is_compressed || !options.decompress_ahead) return source;
  return ReadAhead::start(std::move(source));
}

}  // namespace ashlar
