// SPDX-License-Identifier: Apache-2.0
//
// Tests the messages about files that are not snapshots, and pages of memory_viz.
#include "files/other_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/read_snapshot.h"
#include "format/snapshot_pickle.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string message_for(const std::string& bytes) {
  const Result<Snapshot> read = read_snapshot("x", std::make_unique<MemorySource>(bytes));
  return read.ok() ? "a snapshot" : read.status().message();
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string made;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      made += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63];
    }
  }
  return made;
}

std::string page_with(std::string_view encoded) {
  return "\n<!DOCTYPE html>\n<html><body><script>\nconst local_files = [{\"name\": "
         "\"snapshot.pickle\", \"base64\": \"" +
         std::string(encoded) + "\"}]\n</script></body></html>";
}

TEST(OtherFormatsTest, NamesFormatAndRemedy) {
  using namespace std::string_literals;
  struct Case {
    std::string bytes;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "run `git lfs pull`"},
      {"PK\x03\x04............................archive/data.pkl", "a checkpoint of torch.save"},
      {"PK\x03\x04............................run/dump.pickle", "is a ZIP archive: extract it"},
      {"\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M", "a checkpoint of torch.save"},
      {"\x40\0\0\0\0\0\0\0{\"weight\":{\"dtype\":\"F32\"}}"s, "a safetensors file"},
      {"GGUF\x03\0\0\0"s, "a GGUF file with model weights"},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
      {"{\n  \"schemaVersion\": 1,\n  \"traceEvents\": []}", "a profiler trace"},
      {"[{\"ph\": \"X\", \"cat\": \"cpu_op\"}]", "a profiler trace"},
      {"[[1, 2, 3], [[4], [5], [6]]]", "a memory timeline of torch.profiler"},
      {"<html><body><img src='data:image/png;base64,AA'></body></html>",
       "an HTML page without a snapshot in it"},
      {"Traceback (most recent call last):\n", "is text, neither a pickle nor JSON"},
      {"BZh91AY&SY", "compressed with bzip2"},
  };
  for (const Case& each : cases) {
    EXPECT_THAT(message_for(each.bytes), HasSubstr(each.message));
    EXPECT_THAT(message_for(each.bytes), StartsWith("x: is "));
    EXPECT_EQ(message_for(each.bytes).find('\n'), std::string::npos) << "one line";
  }
}

TEST(OtherFormatsTest, AcceptsSnapshotsWithAnyFirstKey) {
  EXPECT_EQ(message_for(R"({"segments": [], "device_traces": []})"), "a snapshot");
  EXPECT_EQ(message_for(R"({"device_traces": [], "traceEvents": [], "segments": []})"),
            "a snapshot");
}

TEST(OtherFormatsTest, ReadsSnapshotInMemoryVizPage) {
  for (size_t length = 1; length <= 3; ++length) {  // with and without padding
    Snapshot snapshot;
    snapshot.device_traces.resize(1);
    snapshot.settings.emplace_back("conf", std::string(length, 'x'));
    StringSink pickle;
    ASSERT_TRUE(write_snapshot_pickle(snapshot, pickle).ok());
    const std::string page = page_with(base64(pickle.text));
    const Result<Snapshot> read = read_snapshot("x", std::make_unique<MemorySource>(page));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->settings, snapshot.settings);
  }
}

TEST(OtherFormatsTest, RejectsDamagedPage) {
  StringSink pickle;
  ASSERT_TRUE(write_snapshot_pickle(Snapshot(), pickle).ok());
  const std::string encoded = base64(pickle.text);
  EXPECT_THAT(message_for(page_with("gA!")), HasSubstr("damaged"));
  const std::string page = page_with(encoded);
  EXPECT_THAT(message_for(page.substr(0, page.find(encoded) + 4)), HasSubstr("truncated"));
  EXPECT_NE(message_for(page_with("")), "a snapshot");
}

}  // namespace
}  // namespace ashlar
