// SPDX-License-Identifier: Apache-2.0
//
// Being watched, for C.
#include "ashlar/live.h"

#include "api/c/handles.h"
#include "api/unwrap.h"

using namespace ashlar;
using namespace ashlar::c_api;

// NOLINTNEXTLINE(readability-identifier-naming): the name is C's
struct ashlar_live {
  explicit ashlar_live(const LiveOptions& options) : server(options) {}
  LiveServer server;
};

ashlar_status ashlar_live_start(const ashlar_live_options* options, ashlar_live** live) noexcept {
  return guarded([&] {
    require(live, "live");
    const ashlar_live_options given = read_struct(options);
    LiveOptions wanted;
    if (given.has_port != 0) wanted.port = given.port;
    if (given.token != nullptr) wanted.token = given.token;
    *live = std::make_unique<ashlar_live>(wanted).release();
  });
}

ashlar_status ashlar_live_address(const ashlar_live* live, ashlar_bytes** address) noexcept {
  return guarded([&] {
    require(live, "live");
    require(address, "address");
    *address = give_bytes(live->server.address());
  });
}

void ashlar_live_stop(ashlar_live* live) noexcept {
  const std::unique_ptr<ashlar_live> owned(live);
}
