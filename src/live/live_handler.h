// SPDX-License-Identifier: Apache-2.0
//
// What http::Server asks when somebody asks a process about its allocators: docs/formats/live.md.
// Values are copied out first and written afterwards, without any lock. Thread safe.
#pragma once

#include <memory>
#include <string_view>

#include "base/mutex.h"
#include "http/server.h"
#include "live/shown.h"

namespace ashlar::live {

class LiveHandler final : public http::Handler {
 public:
  // `showcase` outlives it.
  explicit LiveHandler(Showcase& showcase) : showcase_(showcase) {}

  http::Answer answer(const http::Question& question) override;
  // Looking changes nothing, so there is nothing to post.
  uint64_t most_body_bytes(const http::Question& /*question*/) const override { return 0; }
  http::Answer answer(const http::Question& question, std::unique_ptr<ByteSource> body) override;

 private:
  // A snapshot may be large: one is made at a time, and kept until it is sent.
  class Turn {
   public:
    explicit Turn(LiveHandler& handler);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool is_ours() const { return is_ours_; }

   private:
    LiveHandler& handler_;
    bool is_ours_ = false;
  };

  http::Answer answer_snapshot(std::string_view query);
  http::Answer take_snapshot(const Showcase::Wanted& wanted);

  Showcase& showcase_;
  Mutex mutex_;
  bool is_taking_snapshot_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::live
