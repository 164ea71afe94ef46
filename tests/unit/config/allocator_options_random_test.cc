// SPDX-License-Identifier: Apache-2.0
//
// Random tests: options round-trip through text, and random text is either accepted or rejected
// with a message. The test prints the seed of a failing run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/random.h"
#include "base/units.h"
#include "config/allocator_options.h"

namespace ashlar {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr size_t kTiB = size_t{1} << 40;

bool one_in(Random& random, uint64_t count) { return random.below(count) == 0; }

// Draws a size from `min` to `max`, either in whole MiB or any number of bytes.
size_t draw_bytes(Random& random, size_t min, size_t max) {
  const size_t bytes = min + random.below(max - min + 1);
  if (one_in(random, 2)) return bytes;
  return std::max(min, bytes / kMiB * kMiB);
}

std::optional<size_t> draw_optional_bytes(Random& random, size_t min) {
  if (one_in(random, 2)) return std::nullopt;
  return draw_bytes(random, min, kTiB);
}

// Draws a number in (0, 1).
double draw_fraction(Random& random) {
  const double fraction = std::max(random.fraction(), 0x1p-53);
  return one_in(random, 2) ? fraction : std::max(0.01, static_cast<int>(fraction * 100) / 100.0);
}

ReserveSize draw_reserve(Random& random) {
  if (one_in(random, 2)) return {.capacity_fraction = 4 * draw_fraction(random)};
  return {.bytes = draw_bytes(random, 1, size_t{1} << 50)};
}

uint32_t draw_divisions(Random& random) {
  return one_in(random, 3) ? 0 : uint32_t{1} << random.below(21);
}

void draw_roundup(Random& random, AllocatorOptions& options) {
  uint32_t divisions = draw_divisions(random);
  for (uint32_t& slot : options.roundup_power2_divisions) {
    // Repeated values exercise the short form.
    if (one_in(random, 4)) divisions = draw_divisions(random);
    slot = divisions;
  }
}

AllocatorOptions draw_options(Random& random) {
  AllocatorOptions options;
  options.engine = one_in(random, 2) ? EngineKind::kClassic : EngineKind::kPaged;
  options.pytorch_compatible = one_in(random, 2);
  if (one_in(random, 2)) options.large_segment_bytes = draw_bytes(random, 11 * kMiB, kGiB);
  options.max_split_bytes = draw_optional_bytes(random, options.large_segment_bytes);
  options.max_non_split_rounding_bytes = draw_optional_bytes(random, options.large_segment_bytes);
  if (one_in(random, 2)) draw_roundup(random, options);
  options.expandable_segments = one_in(random, 2);
  options.shareable_expandable_segments = one_in(random, 2);
  if (one_in(random, 2)) options.expandable_reserve = draw_reserve(random);
  for (const char* name : {"compute", "comm-0", "größe", "a b", "<x>"}) {
    if (one_in(random, 4)) options.expandable_reserve_by_class[name] = draw_reserve(random);
  }
  if (one_in(random, 2)) options.garbage_collection_threshold = draw_fraction(random);
  if (one_in(random, 2)) options.memory_fraction = draw_fraction(random);
  options.reject_before_device_oom = one_in(random, 2);
  options.unlock_during_device_allocate = one_in(random, 2);
  options.capture_stream_reuse = one_in(random, 2);
  options.pinned.use_background_threads = one_in(random, 2);
  options.pinned.use_host_register = one_in(random, 2);
  options.pinned.register_thread_count = size_t{1} << random.below(8);
  if (one_in(random, 2)) options.pinned.reserve_segment_bytes = draw_bytes(random, kMiB, kTiB);
  options.pinned.max_round_bytes = draw_optional_bytes(random, 0);
  options.pinned.max_cached_bytes = draw_optional_bytes(random, 0);
  return options;
}

TEST(AllocatorOptionsRandomTest, RoundTripsRandomOptions) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    Random random(seed);
    const AllocatorOptions options = draw_options(random);
    const std::string text = format_allocator_options(options);
    ASSERT_TRUE(check_allocator_options(options).ok())
        << "seed " << seed << ": " << text << "\n"
        << check_allocator_options(options).message();
    const Result<AllocatorOptions> back = parse_allocator_options(text);
    ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << text << "\n" << back.status().message();
    ASSERT_EQ(*back, options) << "seed " << seed << ": " << text;
    ASSERT_EQ(format_allocator_options(*back), text) << "seed " << seed;
  }
}

// Draws a word. Most words are parts of valid options, so that the text reaches deep into the
// parser.
std::string draw_word(Random& random) {
  static constexpr std::array kWords = {",",
                                        ",",
                                        ":",
                                        ":",
                                        "[",
                                        "]",
                                        " ",
                                        ">",
                                        "True",
                                        "False",
                                        "0",
                                        "1",
                                        "0.5",
                                        "8G",
                                        "256",
                                        "512",
                                        "-1",
                                        "1e9",
                                        "99999999999999999999",
                                        "nan",
                                        "inf",
                                        "off",
                                        "unset",
                                        "unlimited",
                                        "pytorch"};
  if (one_in(random, 3)) {
    const std::span<const OptionRow> table = allocator_option_table();
    return std::string(table[random.below(table.size())].name) + (one_in(random, 8) ? "" : ":");
  }
  if (one_in(random, 12)) return std::string(1, static_cast<char>(random.below(256)));
  return kWords[random.below(kWords.size())];
}

TEST(AllocatorOptionsRandomTest, AcceptsOrExplainsRandomText) {
  size_t accepted_count = 0;
  for (uint64_t seed = 1; seed <= 10000; ++seed) {
    Random random(seed);
    std::string text;
    for (uint64_t left = random.below(10); left > 0; --left) text += draw_word(random);
    const Result<AllocatorOptions> options = parse_allocator_options(text);
    if (options.ok()) {
      ++accepted_count;
      const Result<AllocatorOptions> back =
          parse_allocator_options(format_allocator_options(*options));
      ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << text;
      ASSERT_EQ(*back, *options) << "seed " << seed << ": " << text;
      continue;
    }
    ASSERT_EQ(options.status().kind(), StatusKind::kInvalidArgument)
        << "seed " << seed << ": " << text;
    ASSERT_THAT(options.status().message(),
                AnyOf(HasSubstr("(expected "), HasSubstr("did you mean "),
                      HasSubstr("(ashlar config lists all)")))
        << "seed " << seed << ": " << text;
  }
  EXPECT_GT(accepted_count, 500U) << "the random words rarely pass the parser";
}

}  // namespace
}  // namespace ashlar
