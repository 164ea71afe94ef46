// SPDX-License-Identifier: Apache-2.0
//
// The interface of `ashlar view`: its output, the server, its exit code, and the written file. The
// file is long because all of them are tested with running servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "ashlar/allocator.h"
#include "ashlar/live.h"
#include "ashlar/sim.h"
#include "base/units.h"
#include "cli/cli_json.h"
#include "cli/run_cli.h"
#include "cli/view_server.h"
#include "unit/http/socket_client.h"

namespace ashlar {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::filesystem::path new_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ashlar_XXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  return pattern;
}

std::string contents_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

TEST(CliViewTest, ServesDocumentsAtPrintedAddress) {
  ViewServer server({trace("graph_pools.1"), trace("leaky")});
  EXPECT_THAT(server.address(), MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/[0-9a-f]+/"));
  const Json scene = server.scene();
  ASSERT_EQ(scene["documents"].size(), 2U);
  EXPECT_EQ(scene["documents"][1]["name"], "leaky.pickle.xz");
  EXPECT_EQ(scene["documents"][1]["entries"], 484);
  const std::string tile = server.request("GET d/1/tile?by=allocation&level=0&index=0&detail=0");
  EXPECT_EQ(code_of(tile), 200);
  EXPECT_TRUE(body_of(tile).starts_with("ASHV"));
  EXPECT_EQ(server.stop(SIGINT), 0);
}

TEST(CliViewTest, EndsWithinASecondOfProcessorTimeWhileAnalyzing) {
  ViewServer server({trace("gpt2_capped.1")});
  ASSERT_EQ(server.scene()["documents"].size(), 1U);
  constexpr double kEnoughMs = 1000;  // reading and the page take less, the analysis takes more
  ASSERT_EQ(code_of(server.request("GET d/0/causes.json")), 202);
  wait_for_cpu_ms(server.pid(), kEnoughMs);
  ASSERT_EQ(code_of(server.request("GET d/0/causes.json")), 202);
  EXPECT_EQ(server.stop(SIGINT), 0);
  EXPECT_LT(server.cpu_ms_after_signal(), 1000);
}

TEST(CliViewTest, CausesMatchReportAndTune) {
  ViewServer server({trace("oom.1")});
  ASSERT_EQ(server.scene()["documents"].size(), 1U);
  const Json causes = server.json("d/0/causes.json");
  const Json report = Json::parse(run_cli({.arguments = {"report", trace("oom.1"), "--json"}}).out);
  const Json tune = Json::parse(run_cli({.arguments = {"tune", trace("oom.1"), "--json"}}).out);
  EXPECT_EQ(causes["at_peak"]["causes"], report["at_peak"]["causes"]);
  EXPECT_EQ(causes["at_peak"]["gap_bytes"], report["at_peak"]["gap_bytes"]);
  EXPECT_EQ(causes["advice"], report["advice"]);
  for (const char* key : {"results", "best", "paste", "paged"}) {
    EXPECT_EQ(causes[key], tune[key]) << key;
  }
}

TEST(CliViewTest, AnalysesMatchCommands) {
  const std::string file = std::string(ASHLAR_GOLDEN_FOLDER) + "/recordings/leak_batches.pickle.xz";
  const std::filesystem::path folder = new_folder();
  std::filesystem::copy_file(
      std::filesystem::path(ASHLAR_GOLDEN_FOLDER) / "../../benchmarks/gpu/recordings/programs.py",
      folder / "train.py");
  ViewServer server({file, "--source", folder.string()});
  ASSERT_EQ(server.scene()["documents"].size(), 1U);
  const auto result = [&](const std::string& name) {
    Json found = server.json("d/0/" + name);
    found.erase("file");  // the page shows the name only
    return found;
  };
  const auto printed = [&](const std::vector<std::string>& arguments) {
    Json found = run_json(arguments);
    found.erase("file");
    return found;
  };
  EXPECT_EQ(result("oom.json"), printed({"oom", file}));
  EXPECT_EQ(result("leaks.json"), printed({"leaks", file}));
  const Json lines = result("annotate.json");
  EXPECT_EQ(lines, printed({"annotate", file, "--source", folder.string()}));
  const Json training = result("training.json");
  const Json report = printed({"report", file});
  EXPECT_EQ(training["categories"], report["categories"]);
  EXPECT_EQ(training["iterations"], report["iterations"]);
  EXPECT_GT(training["phases"].size(), 3U);
  const Json source = result("source.json?file=0");
  const Json& first = lines["files"][0]["lines"][0];
  EXPECT_EQ(source["lines"][first["line"].get<size_t>() - 1], first["text"]);
  EXPECT_EQ(code_of(server.request("GET d/0/source.json?file=1")), 404);
  std::filesystem::remove_all(folder);
}

TEST(CliViewTest, OpensUploadedFile) {
  ViewServer server({trace("graph_pools.1")});
  ASSERT_EQ(server.scene()["documents"].size(), 1U);
  const std::string answer =
      server.request("POST open?name=leaky.pickle.xz", contents_of(trace("leaky")));
  EXPECT_EQ(body_of(answer), "{\"documents\":[1]}");
  EXPECT_EQ(server.scene()["documents"][1]["entries"], 484);
}

TEST(CliViewTest, ExitsCleanlyWhileBusy) {
  ViewServer server({trace("gpt2_capped.1")});
  EXPECT_THAT(server.address(), HasSubstr("http://127.0.0.1:"));
  EXPECT_THAT(server.stop(SIGTERM), AnyOf(0, 128 + SIGTERM)) << "loaded, or still loading";
  ViewServer explaining({trace("gpt2_capped.1")});
  ASSERT_EQ(explaining.scene()["documents"].size(), 1U);
  EXPECT_EQ(code_of(explaining.request("GET d/0/causes.json")), 202);
  EXPECT_EQ(explaining.stop(SIGINT), 0);
}

TEST(CliViewTest, ReportsUnreadableFileLikeOtherCommands) {
  const std::string file = std::string(ASHLAR_GOLDEN_FOLDER) + "/traces/pytorch_truth.tsv";
  const CliOutcome viewed = run_cli({.arguments = {"view", "--no-browser", file}});
  const CliOutcome reported = run_cli({.arguments = {"report", file}});
  EXPECT_EQ(viewed.exit_code, kExitUnreadableInput);
  EXPECT_THAT(viewed.err, HasSubstr(reported.err));
  EXPECT_THAT(reported.err, HasSubstr("neither a pickle nor JSON"));
  const CliOutcome missing = run_cli({.arguments = {"view", "--no-browser", "/nowhere"}});
  EXPECT_EQ(missing.exit_code, kExitUnreadableInput);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere: cannot be opened: "));
}

TEST(CliViewTest, RequiresFileOrProcess) {
  const CliOutcome neither = run_cli({.arguments = {"view", "--no-browser"}});
  EXPECT_EQ(neither.exit_code, kExitInvalidArgument);
  EXPECT_THAT(neither.err, HasSubstr("FILE or --live PID is required"));
  const CliOutcome unknown = run_cli({.arguments = {"view", "--live", "1073741824"}});
  EXPECT_EQ(unknown.exit_code, kExitInvalidArgument);
  EXPECT_THAT(unknown.err, HasSubstr("there is no process 1073741824"));
  const CliOutcome both = run_cli({.arguments = {"view", "--live", "1", "-o", "x.html"}});
  EXPECT_EQ(both.exit_code, kExitInvalidArgument);
}

// Runs `ashlar view` on the test's own process.
class CliViewLiveTest : public ::testing::Test {
 protected:
  CliViewLiveTest() {
    sim::Options options;
    options.capacity_bytes = kGiB;
    machine_ = *sim::Machine::try_create(options);
    allocator_ = std::make_unique<Allocator>(machine_->device(DeviceIndex(0)));
    live_.emplace();
  }
  static std::vector<std::string> arguments() { return {"--live", std::to_string(getpid())}; }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<Allocator> allocator_;
  std::optional<LiveServer> live_;
};

TEST_F(CliViewLiveTest, ServesCurrentStats) {
  ViewServer server(arguments());
  const Json scene = server.scene();
  EXPECT_THAT(scene["live"].get<std::string>(),
              AllOf(HasSubstr("cli_tests, process "), HasSubstr(std::to_string(getpid()))));
  EXPECT_EQ(scene["documents"].size(), 1U);
  const Buffer buffer = allocator_->allocate(3 * kMiB);
  const std::string answer = server.request("GET live.json");
  ASSERT_EQ(code_of(answer), 200) << answer;
  const Json numbers = Json::parse(body_of(answer));
  EXPECT_EQ(numbers["pid"], getpid());
  EXPECT_EQ(numbers["allocators"][0]["requested_bytes"], 3 * kMiB);
  EXPECT_EQ(server.stop(SIGINT), 0);
}

TEST_F(CliViewLiveTest, SnapshotBecomesDocument) {
  allocator_->history().start();
  ViewServer server(arguments());
  ASSERT_EQ(server.scene()["documents"].size(), 1U);
  const Buffer buffer = allocator_->allocate(3 * kMiB);
  EXPECT_EQ(body_of(server.request("POST live/snapshot")), "{\"documents\":[1]}");
  const Json scene = server.scene();
  ASSERT_EQ(scene["documents"].size(), 2U);
  EXPECT_EQ(scene["documents"][1]["peak"]["requested"], 3 * kMiB);
  EXPECT_EQ(scene["documents"][1]["has_history"], true);
  EXPECT_THAT(scene["documents"][1]["name"].get<std::string>(), HasSubstr(", allocator "));
  EXPECT_EQ(code_of(server.request("GET d/1/map?at=0")), 200);
}

TEST_F(CliViewLiveTest, ReportsEndOfProcess) {
  ViewServer server(arguments());
  ASSERT_EQ(server.scene()["documents"].size(), 1U);
  live_.reset();
  for (const char* question : {"GET live.json", "POST live/snapshot"}) {
    const std::string answer = server.request(question);
    EXPECT_EQ(code_of(answer), 410) << answer;
    EXPECT_THAT(answer, HasSubstr("has ended or stopped live monitoring"));
  }
  EXPECT_EQ(server.scene()["documents"].size(), 1U) << "loaded documents remain";
}

TEST(CliViewTest, HasNoLiveDataWithoutProcess) {
  ViewServer server({trace("leaky")});
  EXPECT_EQ(server.scene()["live"], nullptr);
  EXPECT_EQ(code_of(server.request("GET live.json")), 404);
  EXPECT_EQ(code_of(server.request("POST live/snapshot")), 405);
}

// Puts a script first in PATH that replaces xdg-open and records the script's argument.
class FakeBrowser {
 public:
  FakeBrowser() {
    {
      std::ofstream browser(folder_ / "xdg-open");
      browser << "#!/bin/sh\nprintf '%s' \"$*\" > " << record_ << ".part\nmv " << record_
              << ".part " << record_ << "\n";
    }
    std::filesystem::permissions(folder_ / "xdg-open", std::filesystem::perms::owner_all);
    setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    setenv("DISPLAY", ":99", 1);
  }
  ~FakeBrowser() {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("DISPLAY");
    std::filesystem::remove_all(folder_);
  }
  FakeBrowser(const FakeBrowser&) = delete;
  FakeBrowser& operator=(const FakeBrowser&) = delete;

  std::string opened_address() const {
    while (!std::filesystem::exists(record_)) std::this_thread::yield();
    return contents_of(record_);
  }

 private:
  const std::filesystem::path folder_ = new_folder();
  const std::string record_ = (folder_ / "noted").string();
  const std::string path_ = getenv("PATH");
};

// The server keeps running after it has rejected the file, because the browser may connect later.
TEST(CliViewTest, PageShowsFailureAndAcceptsAnotherFile) {
  const FakeBrowser browser;
  ViewServer server({std::string(ASHLAR_GOLDEN_FOLDER) + "/traces/pytorch_truth.tsv"},
                    ViewServer::Browser::kStarted);
  browser.opened_address();
  EXPECT_THAT(server.scene()["error"].get<std::string>(), HasSubstr("neither a pickle nor JSON"));
  EXPECT_EQ(body_of(server.request("POST open?name=leaky", contents_of(trace("leaky")))),
            "{\"documents\":[0]}");
  EXPECT_EQ(server.scene()["documents"][0]["entries"], 484);
  EXPECT_EQ(server.stop(SIGINT), kExitUnreadableInput);
}

// Other users can see the browser's command line, so it must not contain the token.
TEST(CliViewTest, BrowserGetsOneTimeAddressWithoutToken) {
  const FakeBrowser browser;
  ViewServer server({trace("leaky")}, ViewServer::Browser::kStarted);
  const std::string opened_address = browser.opened_address();

  const std::string origin = server.address().substr(0, server.address().find('/', 7));
  ASSERT_THAT(opened_address, MatchesRegex(origin + "/ticket/[0-9a-f]+"));
  EXPECT_THAT(opened_address, Not(HasSubstr(server.path())));
  const std::string ticket = opened_address.substr(origin.size());
  EXPECT_THAT(server.request_path("GET " + ticket),
              HasSubstr("Location: " + server.path() + "\r\n"));
  EXPECT_EQ(code_of(server.request_path("GET " + ticket)), 403);
}

class CliViewFileTest : public ::testing::Test {
 protected:
  CliViewFileTest() {
    folder_ = new_folder();
    std::ofstream(folder_ / "page.html") << "<html><!--ashlar:responses--></html>";
    std::ofstream(folder_ / "plain.html") << "<html></html>";
  }
  ~CliViewFileTest() override { std::filesystem::remove_all(folder_); }

  CliOutcome write(const std::string& page, const std::string& output) const {
    return run_cli({.arguments = {"view", trace("leaky"), "--page", (folder_ / page).string(), "-o",
                                  (folder_ / output).string()}});
  }

  std::filesystem::path folder_;
};

TEST_F(CliViewFileTest, WritesSelfContainedFile) {
  const CliOutcome outcome = write("page.html", "report.html");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out + outcome.err, "");
  const std::string text = contents_of(folder_ / "report.html");
  EXPECT_THAT(text, HasSubstr("\"d/0/causes.json\": ["));
  EXPECT_THAT(text, HasSubstr("\"scene.json\": ["));
  EXPECT_LE(text.size(), 8'000'000U);
}

TEST_F(CliViewFileTest, ReportsUnwritableFile) {
  EXPECT_EQ(write("page.html", "no/such/folder.html").exit_code, kExitFailure);
  const CliOutcome no_marker = write("plain.html", "report.html");
  EXPECT_NE(no_marker.exit_code, 0);
  EXPECT_THAT(no_marker.err, HasSubstr("the page has no marker for responses"));
}

}  // namespace
}  // namespace ashlar
