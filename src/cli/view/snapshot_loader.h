// SPDX-License-Identifier: Apache-2.0
//
// Loads snapshots while the page is already being served.
#pragma once

#include <string>
#include <vector>

#include "ashlar/status.h"
#include "cli/view/stop_signals.h"
#include "view/live_process.h"
#include "view/viewer.h"
#include "view/viewer_handler.h"

namespace ashlar {

class SnapshotLoader {
 public:
  // All arguments must outlive the loader. `live` is the monitored process, or null.
  SnapshotLoader(view::Viewer& view, view::ViewerHandler& handler, view::LiveProcess* live)
      : view_(view), handler_(handler), live_(live) {}

  // Takes snapshots of the monitored process, if any, then reads the files in order, and reports
  // progress to the page. If a signal arrives first, ends the process with the exit code of the
  // signal. Fails like LiveProcess::take_snapshots(), read_snapshot() and Viewer::add().
  // kDeviceFault: no thread or event descriptor could be created.
  Status run(const std::vector<std::string>& files, const StopSignals& signals);

 private:
  Status load(const std::vector<std::string>& files);
  Status load_live();
  Status load_file(const std::string& file);

  view::Viewer& view_;
  view::ViewerHandler& handler_;
  view::LiveProcess* const live_;
};

// Returns the file name without its folders; "standard input" for "-".
std::string file_name(const std::string& path);

// Reads a whole file of at most 64 MiB. kFormat: the file cannot be read; the message starts with
// the path.
Result<std::string> read_viewer_page(const std::string& path);

}  // namespace ashlar
