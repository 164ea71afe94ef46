// SPDX-License-Identifier: Apache-2.0
//
// `ashlar export`: converts a snapshot to PyTorch's pickle, JSON, a Perfetto trace, or CSV. Writes
// to a file, or to standard output with "-o -".
#include <CLI/CLI.hpp>

#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "cli/recording/recorded_run.h"
#include "cli/subcommand.h"
#include "files/read_snapshot.h"
#include "format/file_sink.h"
#include "format/snapshot_pickle.h"
#include "format/snapshot_writer.h"
#include "format/trace_export.h"

namespace ashlar {
namespace {

using Writer = Status (*)(const Snapshot& snapshot, ByteSink& sink);

struct ExportArguments {
  std::string file{};
  std::string to{};
  std::string output{};
};

CommandFunction prepare_export(CLI::App& parser);
ExitCode run_export(const ExportArguments& arguments, const Session& session);

const std::map<std::string, Writer>& writers() {
  static const std::map<std::string, Writer> by_name = {{"pickle", write_snapshot_pickle},
                                                        {"json", write_snapshot_json},
                                                        {"perfetto", write_perfetto},
                                                        {"csv", write_trace_csv}};
  return by_name;
}

}  // namespace

const Subcommand kExport = {
    .name = "export",
    .summary = "Convert a snapshot to another format",
    .prepare = prepare_export,
};

namespace {

CommandFunction prepare_export(CLI::App& parser) {
  auto arguments = std::make_shared<ExportArguments>();
  parser.add_option("FILE", arguments->file, kSnapshotHelp)->type_name("FILE")->required();
  parser.add_option("--to", arguments->to, "Format of the output; perfetto: for ui.perfetto.dev")
      ->required()
      ->check(CLI::IsMember(&writers()));
  parser.add_option("-o,--output", arguments->output, "Output file; - is standard output")
      ->type_name("FILE")
      ->required();
  return [arguments](const Session& session) { return run_export(*arguments, session); };
}

// Writes to standard output without Console, which would need the whole text in memory. A closed
// pipe is not an error.
ExitCode run_export(const ExportArguments& arguments, const Session& session) {
  const Result<Snapshot> snapshot = read_snapshot(arguments.file);
  if (!snapshot.ok()) return print_failure(snapshot.status(), session);
  Result<FileSink> sink = FileSink::open(arguments.output);
  if (!sink.ok()) return print_failure(sink.status(), session);
  Status written = writers().at(arguments.to)(*snapshot, *sink);
  if (written.ok()) written = sink->close();
  if (written.ok() || (arguments.output == "-" && written.code() == EPIPE))
    return ExitCode::kSuccess;
  return print_failure(written, session);
}

}  // namespace
}  // namespace ashlar
