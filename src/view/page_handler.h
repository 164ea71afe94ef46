// SPDX-License-Identifier: Apache-2.0
//
// Serves the page and its questions: what http::Server asks when a browser asks it. While files are
// being read, it says how far that is. Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "files/read_snapshot.h"
#include "http/server.h"
#include "view/live.h"
#include "view/view.h"

namespace ashlar::view {

class PageHandler final : public http::Handler {
 public:
  // `view` outlives it. `page`: the HTML of the page; empty: there is none in this build. `live`,
  // which outlives it too, is what is being watched; null: nothing.
  PageHandler(View& view, std::string page, Live* live = nullptr)
      : view_(view), page_(std::move(page)), live_(live) {}

  // What is being done before there is anything to show, such as "reading run.pickle".
  void show_progress(std::string what, double share);
  // What `scene.json` is answered from now on: the scene, or why there is none, until a file that
  // is sent can be read.
  void finish_loading();
  void fail(std::string why);
  // Whether somebody has asked for the page, or anything else.
  bool was_asked() const;
  // Whether there is something to show, which was read at the start or sent later.
  bool is_showing() const;

  http::Response handle(const http::Request& request) override;
  uint64_t max_body_bytes(const http::Request& request) const override;
  http::Response handle(const http::Request& request, std::unique_ptr<ByteSource> body) override;

 private:
  http::Response answer_loading();
  http::Response answer_live();
  http::Response take_snapshots();
  http::Response read_sent(const http::Request& request, std::unique_ptr<ByteSource> body);

  View& view_;
  const std::string page_;
  Live* const live_;

  mutable Mutex mutex_;
  bool is_loading_ ASHLAR_GUARDED_BY(mutex_) = true;
  std::string doing_ ASHLAR_GUARDED_BY(mutex_) = "starting";
  double share_ ASHLAR_GUARDED_BY(mutex_) = 0;
  std::string failure_ ASHLAR_GUARDED_BY(mutex_){};
  bool was_asked_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::view
