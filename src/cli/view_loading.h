// SPDX-License-Identifier: Apache-2.0
//
// Reading the files that are to be looked at while the page is being served already.
#pragma once

#include <string>
#include <vector>

#include "ashlar/status.h"
#include "base/mutex.h"
#include "cli/stop_signals.h"
#include "view/live_process.h"
#include "view/page_handler.h"
#include "view/viewer.h"

namespace ashlar {

class Loading {
 public:
  // All outlive it. `live`: what is being watched; null: nothing.
  Loading(view::Viewer& shown, view::PageHandler& handler, view::LiveProcess* live)
      : shown_(shown), handler_(handler), live_(live) {}

  // Reads one after the other, after a first snapshot of what is being watched, and tells how far
  // it is. False: a signal came first. Fails as read_snapshot() does.
  Result<bool> run(const std::vector<std::string>& files, const StopSignals& signals);

 private:
  Status load(const std::vector<std::string>& files);
  Status load_live();
  Status load_one(const std::string& file);
  bool keep_going() const;
  void stop();

  view::Viewer& shown_;
  view::PageHandler& handler_;
  view::LiveProcess* const live_;
  mutable Mutex mutex_;
  bool keep_going_ ASHLAR_GUARDED_BY(mutex_) = true;
};

// The name of a file without its folders.
std::string name_of_file(const std::string& path);

// All of a small file. kFormat: it cannot be read; the message starts with the path.
Result<std::string> read_page(const std::string& path);

}  // namespace ashlar
