// SPDX-License-Identifier: Apache-2.0
//
// Tests plain and compressed input: valid, corrupt, truncated and too large.
#include "files/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "ashlar/unique_fd.h"
#include "unit/files/compressed.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

constexpr Compression kAll[] = {Compression::kNone, Compression::kXz, Compression::kZstd,
                                Compression::kGzip};
constexpr Compression kCompressed[] = {Compression::kXz, Compression::kZstd, Compression::kGzip};

// Returns all bytes, or the error message.
std::string read_all(ByteSource& source) {
  std::string all;
  std::vector<char> part(100'000);
  while (true) {
    const Result<size_t> got = source.read(part);
    if (!got.ok()) return "failed: " + got.status().message();
    if (*got == 0) return all;
    all.append(part.data(), *got);
  }
}

std::string read_through(const std::string& bytes, const InputOptions& options = {}) {
  Result<std::unique_ptr<ByteSource>> source =
      open_input(std::make_unique<MemorySource>(bytes), options);
  if (!source.ok()) return source.status().message();
  return read_all(**source);
}

std::string some_bytes() {
  std::string bytes;
  for (uint32_t i = 0; i < 300'000; ++i) bytes += std::to_string(i * 7919 % 1000);
  return bytes;
}

TEST(Input, DetectsCompressionByContent) {
  const std::string bytes = some_bytes();
  for (const Compression compression : kAll) {
    // These checks use EXPECT_TRUE, because EXPECT_EQ would print the bytes.
    EXPECT_TRUE(read_through(compressed(bytes, compression)) == bytes);
    EXPECT_TRUE(read_through(compressed(bytes, compression), {.decompress_ahead = false}) == bytes);
    EXPECT_EQ(read_through(compressed("", compression)), "");
    EXPECT_EQ(read_through(compressed("x", compression)), "x");
  }
}

TEST(Input, DecodesConcatenatedStreams) {
  for (const Compression compression : kCompressed) {
    EXPECT_EQ(read_through(compressed("one ", compression) + compressed("two", compression)),
              "one two");
  }
}

TEST(Input, ReportsEveryTruncation) {
  for (const Compression compression : kCompressed) {
    const std::string whole = compressed("some bytes of which there are not many", compression);
    for (size_t length = 6; length < whole.size(); ++length) {
      EXPECT_THAT(read_through(whole.substr(0, length)), HasSubstr("truncated")) << length;
    }
  }
}

TEST(Input, ReportsCorruption) {
  for (const Compression compression : kCompressed) {
    std::string bytes = compressed(some_bytes(), compression);
    for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 50; ++i) bytes[i] ^= '\x55';
    EXPECT_THAT(read_through(bytes).substr(0, 200), HasSubstr("is corrupt"));
    EXPECT_THAT(read_through(compressed("x", compression) + "something else entirely"),
                HasSubstr("is corrupt"));
  }
}

TEST(Input, StopsDecompressionBombsAtTheLimit) {
  const std::string zeros(64 << 20, '\0');
  for (const Compression compression : kCompressed) {
    const std::string outcome =
        read_through(compressed(zeros, compression), {.max_bytes = 4 << 20});
    EXPECT_THAT(outcome.substr(0, 200), HasSubstr("has more than 4.00 MiB after decompression"));
  }
}

TEST(Input, RejectsFilesThatExpandAThousandfold) {
  const std::string bomb = compressed(std::string(100 << 20, '\0'), Compression::kZstd);
  EXPECT_LT(bomb.size(), 32u << 10);
  EXPECT_THAT(read_through(bomb).substr(0, 200),
              HasSubstr("expands to more than 1000 times its size"));
}

TEST(Input, RejectsHugeDictionaries) {
  // The header of an xz block whose filter requests a dictionary of 4 GiB minus one byte.
  const std::string_view header("\xfd\x37zXZ\0\0\x01\x69\x22\xde\x36\x02\0\x21\x01\x28\0\0\0", 20);
  const std::string bomb =
      std::string(header) + std::string("\xd9\x31\xed\x44", 4) + std::string(100, '\x01');
  EXPECT_THAT(read_through(bomb),
              testing::AnyOf(HasSubstr("more than 128 MiB"), HasSubstr("is corrupt")));
}

TEST(Input, ReportsFilesThatCannotBeOpened) {
  const Result<std::unique_ptr<ByteSource>> missing = open_input("/no/such/file");
  EXPECT_TRUE(missing.status().is(StatusKind::kFormat));
  EXPECT_THAT(missing.status().message(), HasSubstr("No such file"));
  EXPECT_THAT(open_input("/").status().message(), HasSubstr("is a folder"));
}

TEST(InputConcurrency, StopsTheThreadIfTheReaderLeavesEarly) {
  const std::string bytes = compressed(std::string(64 << 20, '\0'), Compression::kZstd);
  for (int i = 0; i < 20; ++i) {
    Result<std::unique_ptr<ByteSource>> source =
        open_input(std::make_unique<MemorySource>(bytes), {});
    ASSERT_TRUE(source.ok());
    std::vector<char> part(10);
    const bool stops_before_first_byte = i % 2 == 0;
    if (stops_before_first_byte) continue;
    EXPECT_TRUE((*source)->read(part).ok());
  }
}

TEST(InputConcurrency, DeliversBytesInOrder) {
  const std::string bytes = some_bytes() + some_bytes() + some_bytes();
  EXPECT_TRUE(read_through(compressed(bytes, Compression::kZstd)) == bytes);
}

// An anonymous file with a path in /proc.
class NamelessFile {
 public:
  explicit NamelessFile(const std::string& bytes) : file_(memfd_create("input", MFD_CLOEXEC)) {
    EXPECT_EQ(write(file_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

 private:
  UniqueFd file_;
};

TEST(Input, ReportsProgress) {
  const std::string bytes = some_bytes();
  const NamelessFile file(bytes);
  std::vector<double> shares;
  InputOptions options;
  options.on_progress = [&](double share) {
    shares.push_back(share);
    return true;
  };
  Result<std::unique_ptr<ByteSource>> source = open_input(file.path(), options);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_TRUE(read_all(**source) == bytes);
  ASSERT_GT(shares.size(), 2U);
  EXPECT_EQ(shares.front(), 0);
  EXPECT_EQ(shares.back(), 1);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
}

TEST(Input, StopsWhenCancelled) {
  for (const Compression compression : kAll) {
    const NamelessFile file(compressed(some_bytes(), compression));
    InputOptions options;
    int asked = 0;
    options.on_progress = [&](double) { return ++asked <= 1; };
    Result<std::unique_ptr<ByteSource>> source = open_input(file.path(), options);
    ASSERT_TRUE(source.ok()) << source.status().message();
    EXPECT_THAT(read_all(**source), HasSubstr("reading was cancelled"));
  }
}

}  // namespace
}  // namespace ashlar
