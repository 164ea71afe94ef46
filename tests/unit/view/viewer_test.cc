// SPDX-License-Identifier: Apache-2.0
//
// Tests requests from the page, and the HTTP handler.
#include "view/viewer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "analysis/timeline.h"
#include "format/snapshot_pickle.h"
#include "format/value_store.h"
#include "unit/analysis/trace_builder.h"
#include "unit/view/analysis_stub.h"
#include "unit/view/columns_reader.h"
#include "unit/view/random_run.h"
#include "view/viewer_handler.h"

namespace ashlar::view {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ViewerTest : public ::testing::Test {
 protected:
  void add(Snapshot snapshot, const std::string& name = "run.pickle") {
    ASSERT_TRUE(viewer_.add(Recording::create(name, std::move(snapshot))).ok());
  }
  http::Response respond(const std::string& request) const {
    const size_t mark = std::min(request.find('?'), request.size());
    return viewer_.respond(request.substr(0, mark),
                           request.substr(std::min(mark + 1, request.size())));
  }
  json scene() const { return json::parse(respond("scene.json").body); }

  Viewer viewer_{"ashlar 1.2.3", fixed_causes("{\"causes\": 1}")};
};

TEST_F(ViewerTest, LimitsTheNumberOfDocuments) {
  Snapshot snapshot;
  snapshot.device_traces.resize(kMaxDevices, {TraceEntry{.action = TraceAction::kSnapshot}});
  for (size_t count = 0; count < kMaxDocuments; count += kMaxDevices) add(snapshot);
  const Status refused = viewer_.add(Recording::create("last.pickle", snapshot)).status();
  EXPECT_TRUE(refused.is(StatusKind::kInvalidArgument));
  EXPECT_EQ(refused.message(),
            "last.pickle: cannot add 128 devices to the 1024 that are open (expected at most 1024 "
            "in total); start another viewer");
}

TEST_F(ViewerTest, SceneDescribesTheDocuments) {
  TraceBuilder trace;
  trace.add(TraceAction::kSegmentAlloc, 1 << 20, 4096)
      .alloc(1 << 20, 1000)
      .alloc(2 << 20, 24, 0x55)
      .free(1 << 20, 1000)
      .add(TraceAction::kOom, 77, 4096);
  trace.snapshot().annotations = {{DeviceIndex(), 2, {{"stage", "START"}, {"name", "step"}}}};
  add(trace.snapshot());
  const json found = scene();
  EXPECT_EQ(found["version"], 1);
  EXPECT_EQ(found["program"], "ashlar 1.2.3");
  const json& document = found["documents"][0];
  EXPECT_EQ(document["name"], "run.pickle");
  EXPECT_EQ(document["entries"], 6);
  EXPECT_EQ(document["levels"], 1);
  EXPECT_EQ(document["columns"], 512);
  EXPECT_EQ(document["first_us"], 1);
  EXPECT_EQ(document["last_us"], 6);
  EXPECT_EQ(document["peak"],
            (json{{"entry", 2}, {"requested", 1024}, {"allocated", 1536}, {"reserved", 4096}}));
  EXPECT_EQ(document["reserved_peak"],
            (json{{"entry", 2}, {"reserved", 4096}, {"requested", 1024}}))
      << "the most requested bytes while reserved memory is at its peak";
  EXPECT_EQ(document["lower_bound"], 24 + 4096) << "the live bytes and the failed request";
  EXPECT_EQ(document["streams"], (json{"0", "0x55"}));
  EXPECT_EQ(document["pools"], (json{"default"}));
  EXPECT_EQ(document["annotations"], (json::array({{{"entry", 1}, {"text", "step START"}}})));
  EXPECT_EQ(document["annotation_count"], 1);
  EXPECT_EQ(document["ooms"], (json::array({{{"entry", 5}, {"requested", 4096}, {"free", 77}}})));
  EXPECT_EQ(document["oom_count"], 1);
  EXPECT_EQ(document["allocations"], 2);
  EXPECT_EQ(document["moments"], json());
}

TEST_F(ViewerTest, OpensDeviceThatRanOutOfMemoryFirst) {
  TraceBuilder small;
  small.add(TraceAction::kSegmentAlloc, 1 << 20, 4096).alloc(1 << 20, 1000);
  TraceBuilder large;
  large.add(TraceAction::kSegmentAlloc, 1 << 20, 1 << 20).alloc(1 << 20, 1000);
  TraceBuilder failed;
  failed.add(TraceAction::kSegmentAlloc, 1 << 20, 8192)
      .alloc(1 << 20, 1000)
      .add(TraceAction::kOom, 77, 4096);
  add(small.snapshot());
  EXPECT_EQ(scene()["default_document"], 0);
  add(large.snapshot());
  EXPECT_EQ(scene()["default_document"], 1) << "the one with the most reserved bytes";
  Snapshot two_devices = failed.snapshot();
  two_devices.device_traces.insert(two_devices.device_traces.begin(),
                                   small.snapshot().device_traces[0]);
  add(std::move(two_devices));
  ASSERT_EQ(scene()["documents"].size(), 4U);
  EXPECT_EQ(scene()["default_document"], 3) << "the device that ran out of memory";
}

TEST_F(ViewerTest, ReturnsTimesOfEntries) {
  TraceBuilder trace;
  trace.alloc(1 << 20, 1000).free(1 << 20, 1000);
  add(trace.snapshot());
  const ColumnsReader times(respond("d/0/times").body);
  std::vector<double> expected;
  for (const TraceEntry& entry : trace.snapshot().device_traces[0]) {
    expected.push_back(static_cast<double>(entry.time_us));
  }
  EXPECT_EQ(times.column<double>("time_us"), expected);
  EXPECT_EQ(times.column<uint32_t>("entry").size(), expected.size());
}

TEST_F(ViewerTest, SceneTruncatesMarksButCountsAll) {
  TraceBuilder trace;
  for (int i = 0; i < 12'000; ++i) trace.add(TraceAction::kAnnotate, 0, 0);
  for (int i = 0; i < 10'001; ++i) trace.add(TraceAction::kOom, 77, 4096);
  trace.snapshot().annotations = {{DeviceIndex(), 22'000, {{"name", "the end"}}}};
  add(trace.snapshot());
  const json document = scene()["documents"][0];
  EXPECT_EQ(document["annotation_count"], 12'001);
  ASSERT_EQ(document["annotations"].size(), 10'000U);
  EXPECT_EQ(document["annotations"].back()["entry"], 9'999) << "they leave no gap";
  EXPECT_EQ(document["oom_count"], 10'001);
  ASSERT_EQ(document["ooms"].size(), 10'000U);
  EXPECT_EQ(document["ooms"].back()["entry"], 21'999);
}

TEST_F(ViewerTest, PutsAnInitialReservedPeakAtTheRequestedPeak) {
  TraceBuilder trace;
  trace.ends_with(1 << 20, 4096, SnapshotBlockState::kInactive)
      .alloc(1 << 20, 512)
      .alloc((1 << 20) + 512, 1024)
      .free(1 << 20, 512)
      .free((1 << 20) + 512, 1024);
  add(trace.snapshot());
  EXPECT_EQ(scene()["documents"][0]["reserved_peak"],
            (json{{"entry", 1}, {"reserved", 4096}, {"requested", 1536}}));
}

TEST_F(ViewerTest, MakesOneDocumentPerDevice) {
  Snapshot snapshot = random_snapshot({.seed = 1, .entry_count = 50});
  snapshot.device_traces.push_back(snapshot.device_traces[0]);
  add(snapshot);
  add(random_snapshot({.seed = 2, .entry_count = 10}), "other.pickle");
  const json documents = scene()["documents"];
  ASSERT_EQ(documents.size(), 3U);
  EXPECT_EQ(documents[1]["device"], 1);
  EXPECT_EQ(documents[2]["name"], "other.pickle");
}

TEST_F(ViewerTest, HasOneMomentWithoutHistory) {
  TraceBuilder trace;
  trace.ends_with(1 << 20, 4096, SnapshotBlockState::kAllocated);
  trace.snapshot().device_traces.clear();
  add(trace.snapshot());
  const json document = scene()["documents"][0];
  EXPECT_EQ(document["entries"], 1);
  EXPECT_EQ(document["has_history"], false);
  EXPECT_EQ(document["first_us"], json());
  EXPECT_EQ(document["peak"]["requested"], 4096);
  EXPECT_EQ(ColumnsReader(respond("d/0/map?at=0").body).column<double>("block_requested"),
            (std::vector<double>{4096}));
  EXPECT_EQ(viewer_.wait_for_response("d/0/causes.json", "").code, 404);
}

TEST_F(ViewerTest, AcceptsAnEmptySnapshot) {
  add({});
  EXPECT_EQ(scene()["documents"][0]["entries"], 1);
  EXPECT_EQ(respond("d/0/tile?by=allocation&level=0&index=0&detail=0").code, 200);
  EXPECT_EQ(respond("d/0/tile?by=stack&level=0&index=0&detail=0").code, 200);
  EXPECT_EQ(respond("d/0/map?at=0").code, 200);
}

TEST_F(ViewerTest, ListsStacksOutermostFirst) {
  add(random_snapshot({.seed = 1, .entry_count = 50}));
  const json found = json::parse(respond("d/0/stacks.json").body);
  const json stack = found["stacks"][2];  // after "no stack" and "before the recording"
  ASSERT_EQ(stack.size(), 2U);
  EXPECT_EQ(found["frames"][stack[0].get<size_t>()], (json{"outer", "b.py", 2}));
  EXPECT_EQ(found["frames"][stack[1].get<size_t>()], (json{"inner", "a.py", 1}));
  EXPECT_EQ(found["stacks"][0], json::array()) << "no stack";
}

TEST_F(ViewerTest, LiveBytesByStackAddUp) {
  add(random_snapshot({.seed = 1, .entry_count = 800}));
  const Document& document = *viewer_.documents()[0];
  const ColumnsReader found(respond("d/0/stacks?at=500").body);
  const auto bytes = found.column<double>("bytes");
  EXPECT_TRUE(std::is_sorted(bytes.rbegin(), bytes.rend()));
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), 0.0),
            static_cast<double>(document.requested().at(500)));
  const auto counts = found.column<uint32_t>("count");
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0U),
            present_at(document.allocations(), 500).size());
  EXPECT_EQ(found.column<uint32_t>("stack").size(), bytes.size());
}

TEST_F(ViewerTest, RejectsUnknownRequestsAndArguments) {
  add(random_snapshot({.seed = 1, .entry_count = 1500}));
  struct Row {
    const char* request;
    int code;
  };
  const Row rows[] = {
      {"nothing", 404},
      {"d", 404},
      {"d/", 404},
      {"d/0", 404},
      {"d/0/", 404},
      {"d/1/map?at=0", 404},
      {"d/x/map?at=0", 404},
      {"d/-1/map?at=0", 404},
      {"d/4294967296/map?at=0", 404},
      {"d/0/map", 400},
      {"d/0/map?at=", 400},
      {"d/0/map?at=1e3", 400},
      {"d/0/map?at=-1", 400},
      {"d/0/map?at=99999999", 400},
      {"d/0/stacks?at=99999999999999999999", 400},
      {"d/0/tile?by=colour&level=0&index=0&detail=0", 400},
      {"d/0/tile?by=allocation&level=9&index=0&detail=0", 400},
      {"d/0/tile?by=allocation&level=0&index=1&detail=0", 400},
      {"d/0/tile?by=allocation&level=0&index=0&detail=5", 400},
      {"d/0/tile?by=stack&level=0&index=0&detail=1", 400},
      {"d/0/allocation?id=99999999", 400},
      {"d/0/oom.json", 404},
      {"d/0/source.json?file=0", 404},
      {"d/0/source.json?file=x", 400},
      {"d/0/allocations?sort=bytes&order=up&from=0&count=10&at=all&search=&category=11", 400},
      {"d/0/allocations?sort=bytes&order=up&from=0&count=10&at=all&search=&category=10", 200},
      {"d/0/allocations?sort=bytes&order=up&from=0&count=10001&at=all&search=", 400},
      {"d/0/allocations?sort=size&order=up&from=0&count=10&at=all&search=", 400},
      {"d/0/allocations?sort=bytes&order=up&from=0&count=10&at=all&search=%zz", 400},
      {"d/0/allocations?sort=bytes&order=up&from=0&count=10&at=all", 400},
      {"d/0/allocations?sort=bytes&order=up&from=0&count=10&at=all&search=", 200},
      {"d/0/allocations?sort=age&order=down&from=0&count=10&at=7&search=a%20b", 200},
      {"d/0/tile?by=pool&level=2&index=2&detail=0", 200},
  };
  for (const Row& row : rows) {
    const http::Response response = respond(row.request);
    EXPECT_EQ(response.code, row.code) << row.request << ": " << response.body.substr(0, 200);
    EXPECT_EQ(response.code != 200, response.body.starts_with("{\"error\": \"")) << row.request;
  }
}

TEST_F(ViewerTest, RespondsWithCausesWhenReady) {
  add(random_snapshot({.seed = 1, .entry_count = 50}));
  http::Response response = respond("d/0/causes.json");
  EXPECT_TRUE(response.code == 202 || response.code == 200);
  EXPECT_EQ(viewer_.wait_for_response("d/0/causes.json", "").body, "{\"causes\": 1}");
  EXPECT_EQ(respond("d/0/causes.json").code, 200);
}

TEST(ViewerConcurrencyTest, ServesRequestsWhileDocumentsAreAdded) {
  Viewer view("ashlar", causes_from([](const DeviceRecording&, const KeepGoing& keep_going) {
                while (keep_going()) std::this_thread::yield();
                return Result<std::string>(Status::timeout("given up"));
              }));
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      const auto added =
          view.add(Recording::create("run", random_snapshot({.seed = seed, .entry_count = 600})));
      ASSERT_TRUE(added.ok());
      const std::string path = "d/" + std::to_string(added->front()) + "/";
      EXPECT_EQ(view.respond(path + "causes.json", "").code, 202);
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(view.respond(path + "tile", "by=allocation&level=0&index=0&detail=0").code, 200);
        EXPECT_EQ(
            view.respond("d/0/allocations", "sort=age&order=up&from=0&count=9&at=all&search=").code,
            200);
        EXPECT_EQ(view.respond("scene.json", "").code, 200);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(view.documents().size(), 4U);
}

class TextSink final : public ByteSink {
 public:
  Status write(std::string_view bytes) override {
    text += bytes;
    return {};
  }
  std::string text;
};

class ViewerHandlerTest : public ViewerTest {
 protected:
  http::Response get(std::string_view path) {
    return handler_.handle({.method = http::Method::kGet, .path = path});
  }
  http::Response open(std::string_view query, std::string_view body) {
    return handler_.handle({.method = http::Method::kPost, .path = "open", .query = query},
                           std::make_unique<MemorySource>(body));
  }

  ViewerHandler handler_{viewer_, "<html></html>"};
};

TEST_F(ViewerHandlerTest, ReportsLoadingProgress) {
  EXPECT_FALSE(handler_.has_been_requested());
  EXPECT_EQ(get("").body, "<html></html>");
  EXPECT_EQ(get("").type, "text/html; charset=utf-8");
  EXPECT_TRUE(handler_.has_been_requested());
  handler_.set_progress("reading run.pickle", 0.25);
  EXPECT_EQ(get("scene.json").code, 202);
  EXPECT_EQ(json::parse(get("scene.json").body),
            (json{{"loading", "reading run.pickle"}, {"done", 0.25}}));
  handler_.finish_loading();
  EXPECT_EQ(get("scene.json").code, 200);
}

TEST_F(ViewerHandlerTest, ReportsALoadingError) {
  handler_.set_error("run.pickle: \"byte\" 0");
  EXPECT_EQ(get("scene.json").code, 400);
  EXPECT_EQ(json::parse(get("scene.json").body), (json{{"error", "run.pickle: \"byte\" 0"}}));
  EXPECT_FALSE(handler_.has_content());
}

TEST_F(ViewerHandlerTest, ShowsAnUploadAfterALoadingError) {
  handler_.set_error("run.pickle: byte 0");
  EXPECT_EQ(open("name=bad.pickle", "hello").code, 400);
  EXPECT_EQ(get("scene.json").code, 400) << "nothing was shown yet";
  TextSink file;
  ASSERT_TRUE(write_snapshot_pickle(random_snapshot({.seed = 3, .entry_count = 70}), file).ok());
  EXPECT_EQ(open("name=good.pickle", file.text).code, 200);
  EXPECT_EQ(get("scene.json").code, 200);
  EXPECT_TRUE(handler_.has_content());
}

TEST_F(ViewerHandlerTest, KeepsLoadingDuringAnUpload) {
  TextSink file;
  ASSERT_TRUE(write_snapshot_pickle(random_snapshot({.seed = 3, .entry_count = 70}), file).ok());
  EXPECT_EQ(open("name=good.pickle", file.text).code, 200);
  EXPECT_EQ(get("scene.json").code, 202);
}

TEST_F(ViewerHandlerTest, OpensAnUploadAsADocument) {
  TextSink file;
  ASSERT_TRUE(write_snapshot_pickle(random_snapshot({.seed = 3, .entry_count = 70}), file).ok());
  const http::Response response = open("name=sent%20file.pickle", file.text);
  EXPECT_EQ(response.body, "{\"documents\":[0]}");
  EXPECT_EQ(scene()["documents"][0]["name"], "sent file.pickle");
  EXPECT_EQ(handler_.max_body_bytes({.path = "scene.json"}), 0U);
  EXPECT_GT(handler_.max_body_bytes({.path = "open"}), uint64_t{1} << 30);
}

TEST_F(ViewerHandlerTest, RejectsAnInvalidUploadWithTheReadersMessage) {
  const http::Response response = open("name=bad.pickle", "hello");
  EXPECT_EQ(response.code, 400);
  EXPECT_THAT(response.body, HasSubstr("bad.pickle: is text, neither a pickle nor JSON"));
  EXPECT_EQ(open("", "hello").code, 400);
  EXPECT_TRUE(viewer_.documents().empty());
}

}  // namespace
}  // namespace ashlar::view
