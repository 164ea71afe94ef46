// SPDX-License-Identifier: Apache-2.0
//
// The HTTP handler of `ashlar view`: serves the page and its requests, accepts uploads, and reports
// progress while files are being read. Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "files/read_snapshot.h"
#include "http/server.h"
#include "view/live_process.h"
#include "view/viewer.h"

namespace ashlar::view {

class ViewerHandler final : public http::Handler {
 public:
  // `page` is the HTML of the page; empty if the build has no page. `live` is the monitored process
  // or null.
  // REQUIRES: `viewer` and `live` outlive the handler.
  ViewerHandler(Viewer& viewer, std::string page, LiveProcess* live = nullptr)
      : viewer_(viewer), page_(std::move(page)), live_(live) {}

  // Sets the loading state, such as "reading run.pickle".
  void set_progress(std::string what, double fraction);
  // Ends the loading state: from now on, requests for scene.json get the scene.
  void finish_loading();
  // Reports that loading failed: from now on, requests for scene.json get the error message, until
  // an upload succeeds.
  void set_error(std::string message);
  // Whether any request without a body has arrived.
  bool has_been_requested() const;
  // Whether loading has finished or, after it failed, an upload has succeeded.
  bool has_content() const;

  http::Response handle(const http::Request& request) override;
  uint64_t max_body_bytes(const http::Request& request) const override;
  http::Response handle(const http::Request& request, std::unique_ptr<ByteSource> body) override;

 private:
  http::Response loading_response();
  http::Response live_response();
  http::Response take_snapshots();
  http::Response open_upload(const http::Request& request, std::unique_ptr<ByteSource> body);

  Viewer& viewer_;
  const std::string page_;
  LiveProcess* const live_;

  mutable Mutex mutex_;
  bool is_loading_ ASHLAR_GUARDED_BY(mutex_) = true;
  std::string loading_text_ ASHLAR_GUARDED_BY(mutex_) = "starting";
  double loading_fraction_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::string failure_ ASHLAR_GUARDED_BY(mutex_){};
  bool has_been_requested_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::view
