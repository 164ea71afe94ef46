// SPDX-License-Identifier: Apache-2.0
//
// Writes pickles with memoized values, and compresses them.
#include "unit/files/hostile_files.h"

#include <cstdint>

#include "base/text.h"
#include "unit/files/compressed.h"
#include "unit/format/pickle_text.h"

namespace ashlar {
namespace {

using namespace pickle;

constexpr size_t kLongBytes = 1'000'000;
constexpr size_t kReferences = 20'000;
const std::string kMemoize = "q\x01";
const std::string kReference = "h\x01";

// A dict in which each key refers to the same string.
std::string dict_with_keys(std::string_view prefix, size_t count, const std::string& first_value) {
  std::string bytes = "}(" + string(text(prefix, 0)) + first_value + kMemoize;
  for (size_t i = 1; i < count; ++i) bytes += string(text(prefix, i)) + kReference;
  return bytes + "u";
}

std::string traces(const std::string& entries) {
  return dict({{"device_traces", list({"](" + entries + "e"})}});
}

std::string repeated_entry(const std::string& action, size_t count) {
  const std::string entry = dict({{"action", string(action)},
                                  {"addr", number(4096)},
                                  {"size", large_number(uint64_t{1} << 46)},
                                  {"stream", number(0)}});
  return traces(entry + kMemoize + repeat(kReference, count));
}

std::string entry_with(std::string_view key, const std::string& value) {
  return dict({{"action", string("alloc")}, {"size", number(5)}, {key, value}});
}

std::string stacks_with_a_long_frame() {
  std::string entries;
  for (int32_t i = 0; i < 2000; ++i) {
    const std::string first =
        i == 0 ? dict({{"name", string(std::string(kLongBytes, 'x'))}}) + kMemoize : kReference;
    entries += entry_with("frames", list({first, dict({{"line", number(i)}})}));
  }
  return traces(entries);
}

}  // namespace

std::vector<HostileFile> hostile_files() {
  const std::string long_string = string(std::string(kLongBytes, 'x'));
  const std::string annotation = dict({{"name", long_string}});
  const std::string frame = dict_with_keys("fx_", 500, long_string);
  std::vector<HostileFile> files = {
      {"annotations", dict({{"device_traces", list({})},
                            {"external_annotations", "](" + annotation + kMemoize +
                                                         repeat(kReference, kReferences) + "e"}})},
      {"settings", dict({{"device_traces", list({})},
                         {"allocator_settings", dict_with_keys("key", 500, long_string)}})},
      {"fx_fields", traces(entry_with("frames", list({frame})))},
      {"entries", repeated_entry("alloc", 4'000'000)},
      {"contexts", traces(entry_with("compile_context", long_string) + kMemoize +
                          repeat(kReference, kReferences))},
      {"stacks", stacks_with_a_long_frame()},
      {"failures", repeated_entry("oom", 35'000), false},
      {"allocations", repeated_entry("alloc", 35'000), false},
  };
  for (HostileFile& file : files) {
    file.bytes = compressed(whole(file.bytes), Compression::kXz);
  }
  return files;
}

}  // namespace ashlar
