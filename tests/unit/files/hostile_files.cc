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

// A dict whose keys all have the same value, which is written once and then referred to by its memo
// index.
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

struct Entry {
  std::string_view action;
  uint64_t number = 0;  // of the block; determines its address
  uint64_t bytes = 0;
  int32_t stream = 0;
};

std::string entry(const Entry& given) {
  return dict({{"action", string(given.action)},
               {"addr", large_number(uint64_t{0x7f0000000000} + (given.number << 21))},
               {"size", large_number(given.bytes)},
               {"stream", number(given.stream)}});
}

std::string allocations_in_streams(int32_t count) {
  std::string entries;
  for (int32_t i = 0; i < count; ++i) entries += entry({"alloc", uint64_t(i), 512, i});
  return traces(entries);
}

// Frees that another stream's work delays to the end.
std::string pending_frees(int32_t count) {
  std::string entries;
  for (int32_t i = 0; i < count; ++i) {
    entries += entry({"alloc", uint64_t(i), 2 << 20, 0});
    entries += entry({"free_requested", uint64_t(i), 2 << 20, 0});
  }
  return traces(entries);
}

struct Lifetimes {
  int32_t block_count = 0;
  size_t round_count = 0;
  uint64_t unit_bytes = 512;          // blocks have 1 to 1009 units, 505 on average
  uint64_t distance_bytes_log2 = 21;  // distance of the addresses of blocks
};

// Returns the entries of rounds in which blocks of many sizes are allocated and then freed in
// another order. All rounds refer to the entries of the first round.
std::string repeated_lifetimes(const Lifetimes& given) {
  const int32_t block_count = given.block_count;
  constexpr int32_t kStep = 7;  // no divisor of `block_count`
  const auto bytes_of = [&](int32_t block) {
    return given.unit_bytes * static_cast<uint64_t>(1 + block * 797 % 1009);
  };
  const auto number_of = [&](int32_t block) {
    return static_cast<uint64_t>(block) << (given.distance_bytes_log2 - 21);
  };
  std::string entries;
  std::string references;
  uint32_t memo = 0;
  const auto add = [&](const std::string& bytes) {
    entries += bytes + "r" + little_endian(memo);
    references += "j" + little_endian(memo++);
  };
  for (int32_t i = 0; i < block_count; ++i) {
    add(entry({"alloc", number_of(i), bytes_of(i), i % 3}));
  }
  for (int32_t i = 0; i < block_count; ++i) {
    const int32_t block = i * kStep % block_count;
    add(entry({"free_completed", number_of(block), bytes_of(block), block % 3}));
  }
  return "](" + entries + repeat(references, given.round_count - 1) + "e";
}

// A full device, on which each request flushes the cache.
std::string large_lifetimes(size_t round_count, uint64_t unit_bytes) {
  const std::string trace = repeated_lifetimes({.block_count = 300,
                                                .round_count = round_count,
                                                .unit_bytes = unit_bytes,
                                                .distance_bytes_log2 = 40});
  return dict({{"device_traces", list({trace})},
               {"allocator_settings",
                dict({{"PYTORCH_CUDA_ALLOC_CONF", string("expandable_segments:True")}})}});
}

// Segments and blocks of 1 TiB each, most of which are freed, and a request that fails.
std::string huge_requests(bool is_expandable) {
  constexpr uint64_t kTiB = uint64_t{1} << 40;
  std::string entries;
  for (uint64_t i = 0; i < 30; ++i) {
    const uint64_t number = i << 20;  // addresses are 2 TiB apart
    entries += entry({"segment_alloc", number, kTiB}) + entry({"alloc", number, kTiB});
    if (i % 3 != 0) entries += entry({"free_completed", number, kTiB});
  }
  entries += entry({"oom", 0, kTiB});
  const std::string conf = is_expandable ? "expandable_segments:True" : "";
  return dict({{"device_traces", list({"](" + entries + "e"})},
               {"allocator_settings", dict({{"PYTORCH_CUDA_ALLOC_CONF", string(conf)}})}});
}

std::string plain_segment(uint64_t number) {
  const std::string address = large_number(uint64_t{0x7f0000000000} + (number << 21));
  const std::string block =
      dict({{"address", address}, {"size", large_number(2 << 20)}, {"state", string("inactive")}});
  return dict(
      {{"address", address}, {"total_size", large_number(2 << 20)}, {"blocks", list({block})}});
}

// Ranges that are mapped and unmapped over thousands of plain segments.
std::string mapped_ranges(uint64_t segment_count, size_t map_count) {
  std::string segments;
  for (uint64_t i = 0; i < segment_count; ++i) segments += plain_segment(i);
  const std::string map = entry({"segment_map", 0, uint64_t{1} << 40}) + "q\x01";
  const std::string unmap = entry({"segment_unmap", 0, uint64_t{1} << 40}) + "q\x02";
  const std::string entries =
      map + unmap + repeat("h\x01h\x02", map_count - 1) + entry({"alloc", 0, 512});
  return dict(
      {{"segments", "](" + segments + "e"}, {"device_traces", list({"](" + entries + "e"})}});
}

// Segments with one block each on several devices, annotations, and stacks of different depths.
std::string states(int32_t count) {
  std::string segments;
  std::string annotations;
  std::string entries;
  std::string frames;
  for (int32_t i = 0; i < count; ++i) {
    const std::string address =
        large_number(uint64_t{0x7f0000000000} + (static_cast<uint64_t>(i) << 21));
    const std::string block = dict(
        {{"address", address}, {"size", number(2 << 20)}, {"state", string("active_allocated")}});
    segments += dict({{"address", address},
                      {"total_size", number(2 << 20)},
                      {"device", number(i % 64)},
                      {"stream", number(i)},
                      {"blocks", list({block})}});
    annotations += dict({{"name", string(text("step ", i))}, {"time_us", number(i)}});
  }
  for (int32_t i = 0; i < 100; ++i) {
    frames += dict({{"name", string("f")}, {"line", number(i)}});
    entries += entry_with("frames", "](" + frames + "e");
  }
  return dict({{"segments", "](" + segments + "e"},
               {"device_traces", list({"](" + entries + "e"})},
               {"external_annotations", "](" + annotations + "e"}});
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
      {"failures", repeated_entry("oom", 11'000), false},
      {"allocations", repeated_entry("alloc", 11'000), false},
      {"streams", allocations_in_streams(4000), false},
      {"pending_frees", pending_frees(2500), false},
      {"lifetimes",
       dict({{"device_traces",
              list({repeated_lifetimes({.block_count = 1000, .round_count = 5})})}}),
       false},
      {"large_lifetimes", large_lifetimes(10, 2 << 20), false},  // 1 GiB on average
      {"huge_lifetimes", large_lifetimes(10, 100 << 20), false},
      {"states", states(600), false},
      {"huge_requests", huge_requests(false), false},
      {"huge_expandable", huge_requests(true), false},
      {"mapped_ranges", mapped_ranges(1500, 3000), false},
  };
  for (HostileFile& file : files) {
    file.bytes = compressed(whole(file.bytes), Compression::kXz);
  }
  return files;
}

}  // namespace ashlar
