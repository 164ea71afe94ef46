// SPDX-License-Identifier: Apache-2.0
//
// `ashlar view`: shows recordings in the browser, served on 127.0.0.1 only, or writes them to a
// self-contained page.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/report_json/recording_analyses.h"
#include "cli/recording/recorded_run.h"
#include "cli/subcommand.h"
#include "cli/view/browser.h"
#include "cli/view/live_source.h"
#include "cli/view/snapshot_loader.h"
#include "cli/view/stop_signals.h"
#include "files/read_snapshot.h"
#include "format/file_sink.h"
#include "http/server.h"
#include "http/tokens.h"
#include "view/self_contained_page.h"
#include "view/viewer_handler.h"
#include "view/viewer_page.h"

namespace ashlar {
namespace {

constexpr std::chrono::minutes kRetryTimeout{10};  // time to open another file after a failure

struct ViewArguments {
  std::vector<std::string> files{};
  pid_t live_pid = 0;  // process to monitor; 0: none
  uint16_t port = 0;
  bool no_browser = false;
  std::vector<std::string> sources{};
  std::string output{};  // write this file instead of serving; empty: serve
  std::string page{};    // path of a page to serve instead of the built-in one; empty: built-in
};

CommandFunction prepare_view(CLI::App& parser);
ExitCode run_view(const ViewArguments& arguments, const Session& session);

}  // namespace

const Subcommand kView = {
    .name = "view",
    .summary = "Show recordings in the browser: timeline, map, stacks, causes",
    .prepare = prepare_view,
};

namespace {

CommandFunction prepare_view(CLI::App& parser) {
  auto arguments = std::make_shared<ViewArguments>();
  parser.add_option("FILE", arguments->files, kSnapshotHelp)->type_name("FILE");
  CLI::Option* live =
      parser.add_option("--live", arguments->live_pid, "Watch this process (see ashlar top)")
          ->type_name("PID")
          ->check(CLI::Range(1, 1 << 30));
  parser.add_option("--port", arguments->port, "Port on 127.0.0.1; default: any free port");
  parser
      .add_flag("--no-browser", arguments->no_browser,
                "Print the address without starting a browser")
      ->disable_flag_override();
  parser
      .add_option("-o,--output", arguments->output,
                  "Write a self-contained HTML file instead of serving")
      ->type_name("FILE")
      ->excludes(live);
  add_source_option(parser, arguments->sources);
  parser.add_option("--page", arguments->page, "Serve this page instead of the built-in one")
      ->type_name("FILE");
  return [arguments](const Session& session) { return run_view(*arguments, session); };
}

ExitCode serve(const ViewArguments& arguments, std::string page, const Session& session);
ExitCode write_file(const ViewArguments& arguments, const std::string& page,
                    const Session& session);

ExitCode run_view(const ViewArguments& arguments, const Session& session) {
  if (arguments.files.empty() && arguments.live_pid == 0) {
    session.console.print_message("FILE or --live PID is required; see ashlar help view");
    return ExitCode::kInvalidArgument;
  }
  std::string page = view::embedded_viewer_page();
  if (!arguments.page.empty()) {
    Result<std::string> other = read_viewer_page(arguments.page);
    if (!other.ok()) return print_failure(other.status(), session);
    page = *std::move(other);
  }
  if (!arguments.output.empty() && page.empty()) {
    session.console.print_message(view::kNoViewerPage);
    return ExitCode::kFailure;
  }
  if (!arguments.output.empty()) return write_file(arguments, page, session);
  if (page.empty()) session.console.print_message(view::kNoViewerPage);
  return serve(arguments, std::move(page), session);
}

std::string program() { return fmt::format("ashlar {}", kToolVersion); }

ExitCode serve(const ViewArguments& arguments, std::string page, const Session& session) {
  const Result<SourceFolders> folders = source_folders(arguments.sources);
  if (!folders.ok()) return print_failure(folders.status(), session);
  Result<StopSignals> signals = StopSignals::take();
  if (!signals.ok()) return print_failure(signals.status(), session);
  Result<std::string> token = http::generate_token();
  if (!token.ok()) return print_failure(token.status(), session);
  std::optional<LiveSource> live;
  std::string live_name;
  if (arguments.live_pid != 0) {
    live.emplace(arguments.live_pid, signals->fd());
    Result<std::string> name = live->name();
    if (!name.ok()) return print_failure(name.status(), session);
    live_name = *std::move(name);
  }
  view::LiveProcess* const live_source = live ? &*live : nullptr;
  view::Viewer view(program(), recording_analyses(*folders), live_name);
  view::ViewerHandler handler(view, std::move(page), live_source);
  http::ServerOptions options;
  options.port = arguments.port;
  options.token = *token;
  Result<std::unique_ptr<http::Server>> server = http::Server::start(handler, options);
  if (!server.ok()) return print_failure(server.status(), session);

  session.console.print((*server)->url() + "\n");
  // Other users can see the browser's command line, so the browser gets a one-time address without
  // the token.
  bool has_browser = false;
  if (!arguments.no_browser) {
    const Result<std::string> ticket = (*server)->one_time_url();
    has_browser = ticket.ok() && start_browser(*ticket, session.environment);
  }
  SnapshotLoader loading(view, handler, live_source);
  ExitCode code = ExitCode::kSuccess;
  if (const Status loaded = loading.run(arguments.files, *signals); loaded.ok()) {
    signals->wait();
  } else {
    handler.set_error(loaded.message());
    code = print_failure(loaded, session);
    // An open page shows the failure and lets the user choose another file.
    if (has_browser || handler.has_been_requested()) {
      session.console.print_message("open another file in the page, or press Ctrl-C to quit");
      const bool is_stopped = signals->wait_for(kRetryTimeout);
      if (!is_stopped && handler.has_content()) signals->wait();
    }
  }
  // Exits without waiting for threads that read an uploaded file or compute a response, which may
  // take long. Nothing needs to be cleaned up.
  std::_Exit(static_cast<int>(code));
}

ExitCode write_file(const ViewArguments& arguments, const std::string& page,
                    const Session& session) {
  const Result<SourceFolders> folders = source_folders(arguments.sources);
  if (!folders.ok()) return print_failure(folders.status(), session);
  view::Viewer view(program(), recording_analyses(*folders));
  for (const std::string& file : arguments.files) {
    Result<Snapshot> snapshot = read_snapshot(file);
    if (!snapshot.ok()) return print_failure(snapshot.status(), session);
    const auto recording = Recording::create(file_name(file), *std::move(snapshot));
    if (const auto added = view.add(recording); !added.ok()) {
      return print_failure(added.status(), session);
    }
  }
  const Result<std::string> html = view::self_contained_page(view, page);
  if (!html.ok()) return print_failure(html.status(), session);
  Result<FileSink> sink = FileSink::open(arguments.output);
  if (!sink.ok()) return print_failure(sink.status(), session);
  if (const Status status = sink->write(*html); !status.ok()) return print_failure(status, session);
  if (const Status closed = sink->close(); !closed.ok()) return print_failure(closed, session);
  return ExitCode::kSuccess;
}

}  // namespace
}  // namespace ashlar
