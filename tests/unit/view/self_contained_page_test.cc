// SPDX-License-Identifier: Apache-2.0
//
// Tests self-contained pages. The tests decode the embedded responses as the page's script does.
#include "view/self_contained_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "unit/view/analysis_stub.h"
#include "unit/view/random_run.h"

namespace ashlar::view {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kPage = "<html><!--ashlar:responses--><script>page</script></html>";

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  EXPECT_NE(from, std::string::npos) << begin;
  const size_t start = from + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

std::string decoded(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

std::string inflated(const std::string& packed) {
  std::string plain(1 << 22, '\0');
  uLongf bytes = plain.size();
  EXPECT_EQ(::uncompress(reinterpret_cast<Bytef*>(plain.data()), &bytes,
                         reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
            Z_OK);
  plain.resize(bytes);
  return plain;
}

class SelfContainedPageTest : public ::testing::Test {
 protected:
  SelfContainedPageTest() {
    const auto recording =
        Recording::create("run.pickle", random_snapshot({.seed = 8, .entry_count = 2100}));
    EXPECT_TRUE(viewer_.add(recording).ok());
  }
  void write(size_t max_bytes) {
    const Result<std::string> written = self_contained_page(viewer_, kPage, max_bytes);
    ASSERT_TRUE(written.ok()) << written.status().message();
    file_ = *written;
    index_ = json::parse(between(file_, "id=\"ashlar-index\">", "</script>"));
    responses_ = decoded(between(file_, "id=\"ashlar-responses\">", "</script>"));
  }
  std::string response(const std::string& request) const {
    const json& place = index_.at(request);
    return inflated(responses_.substr(place[0].get<size_t>(), place[1].get<size_t>()));
  }
  json moments() const { return json::parse(response("scene.json"))["documents"][0]["moments"]; }

  Viewer viewer_{"ashlar", fixed_causes("{\"causes\": 1}")};
  std::string file_;
  json index_;
  std::string responses_;
};

TEST_F(SelfContainedPageTest, ContainsTheServersResponses) {
  write(8'000'000);
  EXPECT_TRUE(file_.starts_with("<html><script type=\"application/json\" id=\"ashlar-index\">"));
  EXPECT_TRUE(file_.ends_with("<script>page</script></html>"));
  size_t compared = 0;
  for (const auto& [request, place] : index_.items()) {
    if (request == "scene.json") continue;
    const size_t mark = std::min(request.find('?'), request.size());
    const http::Response wanted = viewer_.wait_for_response(
        request.substr(0, mark), request.substr(std::min(mark + 1, request.size())));
    ASSERT_EQ(wanted.code, 200) << request;
    ASSERT_EQ(response(request), wanted.body) << request;
    ++compared;
  }
  EXPECT_GT(compared, 100U);
}

TEST_F(SelfContainedPageTest, ContainsAllLevelsIfTheyFit) {
  write(8'000'000);
  for (const char* by : {"allocation", "stack", "stream", "pool"}) {
    for (const char* place : {"&level=0&index=0", "&level=1&index=1", "&level=3&index=4"}) {
      const std::string request = std::string("d/0/tile?by=") + by + place + "&detail=0";
      EXPECT_TRUE(index_.contains(request)) << request;
    }
  }
  for (const char* sort : {"bytes", "made", "freed", "age"}) {
    EXPECT_TRUE(index_.contains(std::string("d/0/allocations?sort=") + sort +
                                "&order=down&from=0&count=2000&at=all&search="));
  }
  EXPECT_GE(moments().size(), 200U);
  const json scene = json::parse(response("scene.json"))["documents"][0];
  EXPECT_EQ(moments().back(), scene["entries"].get<uint32_t>() - 1) << "including the end";
  for (const json& moment : moments()) {
    const std::string at = "?at=" + std::to_string(moment.get<uint32_t>());
    EXPECT_TRUE(index_.contains("d/0/map" + at) && index_.contains("d/0/stacks" + at)) << at;
  }
  EXPECT_THAT(response("d/0/causes.json"), HasSubstr("causes"));
}

TEST_F(SelfContainedPageTest, PrefersOverviewsToDetails) {
  write(8'000'000);
  const size_t all = index_.size();
  write(150'000);
  EXPECT_LE(file_.size(), 150'000U);
  EXPECT_LT(index_.size(), all);
  EXPECT_TRUE(index_.contains("d/0/tile?by=allocation&level=0&index=0&detail=0"));
  EXPECT_FALSE(moments().empty()) << "at least the peak";
  write(0);
  EXPECT_TRUE(index_.contains("d/0/tile?by=allocation&level=0&index=0&detail=0"))
      << "the minimum that is required";
  EXPECT_EQ(moments(), json::array());
}

TEST(SelfContainedPageErrorTest, OmitsFailedRequests) {
  Viewer view("ashlar", causes_from([](const DeviceRecording&, const KeepGoing&) {
                return Result<std::string>(Status::invalid_argument("unavailable"));
              }));
  ASSERT_TRUE(
      view.add(Recording::create("run", random_snapshot({.seed = 1, .entry_count = 9}))).ok());
  const Result<std::string> file = self_contained_page(view, kPage, 1'000'000);
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(*file, HasSubstr("\"d/0/stacks.json\": ["));
  EXPECT_THAT(*file, Not(HasSubstr("causes.json")));
}

TEST_F(SelfContainedPageTest, RejectsAPageWithoutTheMarker) {
  const Result<std::string> written = self_contained_page(viewer_, "<html></html>", 1000);
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.status().message(), HasSubstr("no marker for responses"));
}

TEST(Base64Test, MatchesTheTestVectorsOfRfc4648) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace ashlar::view
