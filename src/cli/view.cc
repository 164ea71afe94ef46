// SPDX-License-Identifier: Apache-2.0
//
// `ashlar view`: recorded runs in the browser, served on this machine only.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/report_json/causes_json.h"
#include "cli/browser.h"
#include "cli/recorded_run.h"
#include "cli/stop_signals.h"
#include "cli/subcommand.h"
#include "cli/version.h"
#include "cli/view_live.h"
#include "cli/view_loading.h"
#include "files/read_snapshot.h"
#include "format/file_sink.h"
#include "http/server.h"
#include "http/tokens.h"
#include "view/page.h"
#include "view/page_handler.h"
#include "view/self_contained_page.h"

namespace ashlar {
namespace {

constexpr std::chrono::minutes kTimeToChoose{10};  // another file, when one could not be read

struct ViewRequest {
  std::vector<std::string> files{};
  pid_t live_pid = 0;  // 0: none
  uint16_t port = 0;
  bool no_browser = false;
  std::string output{};  // a file to write, instead of serving; empty: none
  std::string page{};    // another one than the one that is built in
};

Run prepare_view(CLI::App& parser);
ExitCode run_view(const ViewRequest& asked, const Session& session);

}  // namespace

const Subcommand kView = {
    .name = "view",
    .summary = "Look at recorded runs in the browser: timeline, address map, stacks, causes",
    .prepare = prepare_view,
};

namespace {

Run prepare_view(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<ViewRequest>();
  parser.add_option("FILE", asked->files, kSnapshotHelp);
  CLI::Option* live =
      parser
          .add_option("--live", asked->live_pid,
                      "Watch a running process, which ashlar top lists, and take snapshots of it")
          ->check(CLI::Range(1, 1 << 30));
  parser.add_option("--port", asked->port, "Port on 127.0.0.1; default: a free one");
  parser.add_flag("--no-browser", asked->no_browser, "Print the address, and start no browser")
      ->disable_flag_override();
  parser
      .add_option(
          "-o,--output", asked->output,
          "Write one self-contained HTML file, at most 8 MB where possible, and serve nothing")
      ->excludes(live);
  parser.add_option("--page", asked->page, "Another page than the built-in one, for its authors");
  return [asked](const Session& session) { return run_view(*asked, session); };
}

ExitCode serve(const ViewRequest& asked, std::string page, const Session& session);
ExitCode write_file(const ViewRequest& asked, const std::string& page, const Session& session);

ExitCode run_view(const ViewRequest& asked, const Session& session) {
  if (asked.files.empty() && asked.live_pid == 0) {
    session.console.complain("FILE, or --live PID, is needed; see ashlar view --help");
    return ExitCode::kInvalidArgument;
  }
  std::string page = view::built_in_page();
  if (!asked.page.empty()) {
    Result<std::string> other = read_page(asked.page);
    if (!other.ok()) return complain(other.status(), session);
    page = *std::move(other);
  }
  if (!asked.output.empty() && page.empty()) {
    session.console.complain(view::kNoPage);
    return ExitCode::kNo;
  }
  if (!asked.output.empty()) return write_file(asked, page, session);
  if (page.empty()) session.console.complain(view::kNoPage);
  return serve(asked, std::move(page), session);
}

std::string program() { return fmt::format("ashlar {}", kVersion); }

ExitCode serve(const ViewRequest& asked, std::string page, const Session& session) {
  Result<StopSignals> signals = StopSignals::take();
  if (!signals.ok()) return complain(signals.status(), session);
  Result<std::string> token = http::generate_token();
  if (!token.ok()) return complain(token.status(), session);
  std::optional<LivePage> live;
  std::string live_name;
  if (asked.live_pid != 0) {
    live.emplace(asked.live_pid, signals->fd());
    Result<std::string> name = live->name();
    if (!name.ok()) return complain(name.status(), session);
    live_name = *std::move(name);
  }
  view::LiveProcess* const watched = live ? &*live : nullptr;
  view::Viewer shown(program(), causes_json, live_name);
  view::PageHandler handler(shown, std::move(page), watched);
  http::ServerOptions options;
  options.port = asked.port;
  options.token = *token;
  Result<std::unique_ptr<http::Server>> server = http::Server::start(handler, options);
  if (!server.ok()) return complain(server.status(), session);

  session.console.print((*server)->address() + "\n");
  // Other users can list processes with their arguments: the browser's must not tell the token.
  bool has_browser = false;
  if (!asked.no_browser) {
    const Result<std::string> ticket = (*server)->one_time_address();
    has_browser = ticket.ok() && start_browser(*ticket, session.environment);
  }
  Loading loading(shown, handler, watched);
  const Result<bool> loaded = loading.run(asked.files, *signals);
  if (!loaded.ok()) {
    handler.set_error(loaded.status().message());
    const ExitCode code = complain(loaded.status(), session);
    // A page that is there, or about to be, says why, and takes another file.
    if (has_browser || handler.has_been_requested()) {
      session.console.complain("the page takes another file; Ctrl-C ends this");
      const bool is_stopped = signals->wait_for(kTimeToChoose);
      if (!is_stopped && handler.has_content()) signals->wait();
    }
    return code;
  }
  if (*loaded) signals->wait();
  return ExitCode::kDone;
}

ExitCode write_file(const ViewRequest& asked, const std::string& page, const Session& session) {
  view::Viewer shown(program(), causes_json);
  for (const std::string& file : asked.files) {
    Result<Snapshot> snapshot = read_snapshot(file);
    if (!snapshot.ok()) return complain(snapshot.status(), session);
    const auto recording = Recording::create(name_of_file(file), *std::move(snapshot));
    if (const auto added = shown.add(recording); !added.ok()) {
      return complain(added.status(), session);
    }
  }
  const Result<std::string> written = view::self_contained_page(shown, page);
  if (!written.ok()) return complain(written.status(), session);
  Result<FileSink> sink = FileSink::open(asked.output);
  if (!sink.ok()) return complain(sink.status(), session);
  if (const Status wrote = sink->write(*written); !wrote.ok()) return complain(wrote, session);
  if (const Status closed = sink->close(); !closed.ok()) return complain(closed, session);
  return ExitCode::kDone;
}

}  // namespace
}  // namespace ashlar
