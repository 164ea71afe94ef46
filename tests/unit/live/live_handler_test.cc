// SPDX-License-Identifier: Apache-2.0
//
// Tests of live monitoring's responses, without a socket.
#include "live/live_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "format/snapshot_pickle.h"
#include "live/discovery.h"
#include "live/exporters.h"
#include "unit/live/status_sample.h"

namespace ashlar::live {
namespace {

using http::Response;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class Sample final : public StatusSource {
 public:
  ProcessStatus status() override { return process; }
  std::vector<uint64_t> allocator_numbers() override {
    std::vector<uint64_t> all;
    for (const AllocatorStatus& each : process.allocators) all.push_back(each.number);
    return all;
  }
  Result<Snapshot> snapshot(const SnapshotRequest& request) override {
    asked = request;
    if (meanwhile) meanwhile();
    if (request.allocator != 3) return Status::invalid_argument("there is no such allocator");
    return Snapshot();
  }

  ProcessStatus process = hostile_process();
  SnapshotRequest asked{};
  std::function<void()> meanwhile{};
};

class LiveHandlerTest : public ::testing::Test {
 protected:
  Response get(std::string_view path, std::string_view query = "") {
    return handler_.handle({.path = path, .query = query});
  }
  Response get_metrics(std::string_view accept) {
    return handler_.handle({.path = "metrics", .accept = accept});
  }

  Sample sample_;
  LiveHandler handler_{sample_};
};

TEST_F(LiveHandlerTest, SendsPrometheusTextByDefault) {
  const Response response = get("metrics");
  EXPECT_EQ(response.code, 200);
  EXPECT_EQ(response.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(response.body, HasSubstr("# TYPE ashlar_build_info gauge\n"));
  EXPECT_THAT(response.body, HasSubstr("# TYPE ashlar_reserved_bytes gauge\n"));
  EXPECT_THAT(response.body, HasSubstr("# TYPE ashlar_ooms_total counter\n"
                                       "ashlar_ooms_total{allocator=\"3\""));
  EXPECT_THAT(response.body, Not(HasSubstr("# UNIT")));
  EXPECT_THAT(response.body, Not(HasSubstr("\n# EOF")));
  EXPECT_THAT(response.body, EndsWith("\n"));
}

TEST_F(LiveHandlerTest, NegotiatesMetricsFormat) {
  constexpr std::string_view kOpenMetrics =
      "application/openmetrics-text; version=1.0.0; charset=utf-8";
  for (const char* accept : {
           "application/openmetrics-text",
           "application/openmetrics-text;version=1.0.0",
           "application/openmetrics-text, text/plain",
           "application/openmetrics-text, */*",
           "application/*;q=0.2",
           // Prometheus 2 and 3.
           "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
           "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
           "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
           "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
           "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
       }) {
    EXPECT_EQ(get_metrics(accept).type, kOpenMetrics) << accept;
    EXPECT_THAT(get_metrics(accept).body, EndsWith("\n# EOF\n")) << accept;
  }
  for (const char* accept : {
           "",
           "*/*",
           "text/plain",
           "text/html,application/xhtml+xml,*/*;q=0.8",
           "text/plain;version=0.0.4;q=1,*/*;q=0.1",  // Prometheus before OpenMetrics
           "text/plain, application/openmetrics-text;q=0.9",
           "application/openmetrics-text;q=0",
           "application/openmetrics-text;q=0, text/plain;q=0",
           "application/openmetrics-text;version=2.0.0, */*;q=0.1",
           "application/json",
       }) {
    EXPECT_EQ(get_metrics(accept).type, "text/plain; version=0.0.4; charset=utf-8") << accept;
  }
}

TEST_F(LiveHandlerTest, OpenMetricsTextHasTypesAndUnits) {
  const Response response = get_metrics("application/openmetrics-text");
  EXPECT_THAT(response.body, HasSubstr("# TYPE ashlar_build info\n"));
  EXPECT_THAT(response.body, HasSubstr("# TYPE ashlar_reserved_bytes gauge\n"
                                       "# UNIT ashlar_reserved_bytes bytes\n"));
  EXPECT_THAT(response.body, HasSubstr("# TYPE ashlar_ooms counter\n"));
  EXPECT_THAT(response.body,
              HasSubstr("ashlar_ooms_total{allocator=\"3\",backend=\"s\\\"i\\\\m\\n\","
                        "device=\"1\",engine=\"paged\"} 2\n"));
  EXPECT_THAT(response.body, HasSubstr("ashlar_allocations_total{allocator=\"3\""));
  EXPECT_THAT(response.body, HasSubstr("engine=\"paged\",pool=\"1_2\"} 512\n"));
  EXPECT_THAT(response.body, EndsWith("\n# EOF\n"));
}

TEST_F(LiveHandlerTest, ExportsPinnedMemoryMetrics) {
  const std::string all = get("metrics").body;
  const std::string labels = "{host_allocator=\"5\",backend=\"s\\\"i\\\\m\\n\",device=\"1\"}";
  EXPECT_THAT(all, HasSubstr("# TYPE ashlar_host_reserved_bytes gauge\n"));
  EXPECT_THAT(all, HasSubstr("\nashlar_host_reserved_bytes" + labels + " 8192\n"));
  EXPECT_THAT(all, HasSubstr("\nashlar_host_pending_bytes" + labels + " 1024\n"));
  EXPECT_THAT(all, HasSubstr("\nashlar_host_blocks" + labels + " 2\n"));
  EXPECT_THAT(all, HasSubstr("\nashlar_host_allocations_total" + labels + " 3\n"));
  EXPECT_THAT(all, HasSubstr("\nashlar_host_pins_total" + labels + " 2\n"));
  EXPECT_THAT(all, HasSubstr("\nashlar_host_ooms_total" + labels + " 6\n"));
}

TEST_F(LiveHandlerTest, EscapesLabels) {
  const std::string all = get_metrics("application/openmetrics-text").body;
  EXPECT_EQ(all.find("# EOF"), all.find("\\n# EOF") + 2) << "the first one is within a label";
  EXPECT_EQ(all.rfind("\n# EOF\n"), all.find("\n# EOF\n")) << "only the last one has its own line";
  EXPECT_THAT(all, Not(HasSubstr("\xff")));
  EXPECT_THAT(all, Not(HasSubstr("\xed\xa0\x80")));
}

TEST_F(LiveHandlerTest, ExportsStatsAsJson) {
  const Response response = get("stats");
  EXPECT_EQ(response.code, 200);
  EXPECT_EQ(response.type, "application/json");
  EXPECT_THAT(response.body, HasSubstr("\"pid\": 77, \"program\": \"odd \\\"program\\\"\""));
  EXPECT_THAT(response.body, HasSubstr("\"reserved_bytes.all.current\": 4096"));
  EXPECT_THAT(response.body, HasSubstr("\"setup_error\": \"the port was taken\""));
  EXPECT_THAT(response.body, HasSubstr("\"host_allocators\": [{\"number\": 5, "));
  EXPECT_THAT(response.body, HasSubstr("\"allocated_bytes.current\": 8192"));
}

TEST_F(LiveHandlerTest, SendsSnapshotOfNamedAllocator) {
  const Response response = get("snapshot", "allocator=3&traces=0");
  EXPECT_EQ(response.code, 200);
  EXPECT_EQ(sample_.asked.allocator, 3U);
  EXPECT_FALSE(sample_.asked.include_traces);
  StringSink wanted;
  ASSERT_TRUE(write_snapshot_pickle(Snapshot(), wanted).ok());
  EXPECT_EQ(response.body, wanted.text);
}

TEST_F(LiveHandlerTest, DefaultsToTheOnlyAllocator) {
  EXPECT_EQ(get("snapshot").code, 400);
  EXPECT_THAT(get("snapshot").body, HasSubstr("specify an allocator: 3, 4"));
  sample_.process.allocators.pop_back();
  EXPECT_EQ(get("snapshot").code, 200);
  EXPECT_TRUE(sample_.asked.include_traces);
}

TEST_F(LiveHandlerTest, RejectsInvalidRequests) {
  EXPECT_EQ(get("snapshot", "allocator=9").code, 404);
  EXPECT_EQ(get("snapshot", "allocator=-1").code, 400);
  EXPECT_EQ(get("snapshot", "allocator=3&allocator=3").code, 400);
  EXPECT_EQ(get("snapshot", "allocator=3&traces=2").code, 400);
  EXPECT_EQ(get("snapshot", "allocator=3&since_us=-1").code, 400);
  EXPECT_EQ(get("snapshot", "allocator=3&since_us=9223372036854775808").code, 400);
  for (const char* path :
       {"", "metrics/", "stats.json", "../etc/passwd", "etc/passwd", "%2e%2e/"}) {
    EXPECT_EQ(get(path).code, 404) << path;
  }
}

TEST_F(LiveHandlerTest, TakesOneSnapshotAtATime) {
  int second = 0;
  sample_.meanwhile = [&] {
    sample_.meanwhile = nullptr;
    second = get("snapshot", "allocator=3").code;
  };
  EXPECT_EQ(get("snapshot", "allocator=3").code, 200);
  EXPECT_EQ(second, 503);
  EXPECT_EQ(get("snapshot", "allocator=3").code, 200);
}

TEST_F(LiveHandlerTest, FailedSnapshotDoesNotBlockTheNext) {
  sample_.meanwhile = [] { throw std::bad_alloc(); };
  EXPECT_THROW(get("snapshot", "allocator=3"), std::bad_alloc);
  sample_.meanwhile = nullptr;
  EXPECT_EQ(get("snapshot", "allocator=3").code, 200);
}

TEST(DiscoveryTest, FindsListeningStreamSocketsByName) {
  constexpr std::string_view kLines =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 11 @ashlar-live.7.ab\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 12 @ashlar-live.7.ab\n"
      "0000000000000000: 00000002 00000000 00010000 0005 01 13 @ashlar-live.8.cd\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 14 @other\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 15 /run/ashlar-live.9\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 16 @ashlar-live.9.ef";
  EXPECT_THAT(socket_names_in(kLines), ElementsAre("ashlar-live.7.ab", "ashlar-live.9.ef"));
  EXPECT_THAT(socket_names_in(""), ElementsAre());
  EXPECT_THAT(socket_names_in("\n\n @"), ElementsAre());
}

}  // namespace
}  // namespace ashlar::live
