// SPDX-License-Identifier: Apache-2.0
//
// `ashlar export`: a snapshot in another format: PyTorch's pickle, JSON, a trace for Perfetto's
// viewer, or a table. The answer goes to a file, or with "-o -" to standard output.
#include <CLI/CLI.hpp>

#include <cerrno>
#include <map>
#include <memory>
#include <string>

#include "cli/recorded_run.h"
#include "cli/subcommand.h"
#include "files/read_snapshot.h"
#include "format/file_sink.h"
#include "format/snapshot_pickle.h"
#include "format/snapshot_writer.h"
#include "format/trace_export.h"

namespace ashlar {
namespace {

using Write = Status (*)(const Snapshot& snapshot, ByteSink& sink);

struct ExportOptions {
  std::string file{};
  std::string to{};
  std::string output{};
};

Run prepare_export(CLI::App& parser);
ExitCode run_export(const ExportOptions& asked, const Session& session);

const std::map<std::string, Write>& writers() {
  static const std::map<std::string, Write> by_name = {{"pickle", write_snapshot_pickle},
                                                       {"json", write_snapshot_json},
                                                       {"perfetto", write_perfetto},
                                                       {"csv", write_trace_csv}};
  return by_name;
}

}  // namespace

const Subcommand kExport = {
    .name = "export",
    .summary = "Write a snapshot in another format",
    .prepare = prepare_export,
};

namespace {

Run prepare_export(CLI::App& parser) {
  // Shared by the parser, which fills it in, and the function that runs afterwards.
  auto asked = std::make_shared<ExportOptions>();
  parser.add_option("FILE", asked->file, kSnapshotHelp)->required();
  parser.add_option("--to", asked->to, "pickle, json, perfetto or csv")
      ->required()
      ->check(CLI::IsMember(&writers()));
  parser.add_option("-o,--output", asked->output, "Where to; - is standard output")->required();
  return [asked](const Session& session) { return run_export(*asked, session); };
}

// Standard output is written without the console: what would be a megabyte of pickle is not a
// message. A reader that closes the pipe has read enough.
ExitCode run_export(const ExportOptions& asked, const Session& session) {
  const Result<Snapshot> snapshot = read_snapshot(asked.file);
  if (!snapshot.ok()) return complain(snapshot.status(), session);
  Result<FileSink> sink = FileSink::open(asked.output);
  if (!sink.ok()) return complain(sink.status(), session);
  Status written = writers().at(asked.to)(*snapshot, *sink);
  if (written.ok()) written = sink->close();
  if (written.ok() || (asked.output == "-" && written.code() == EPIPE)) return ExitCode::kDone;
  return complain(written, session);
}

}  // namespace
}  // namespace ashlar
