// SPDX-License-Identifier: Apache-2.0
//
// Parses arbitrary bytes as the head of an HTTP response and as the lists of sockets in /proc/net.
// All results must lie within the input.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "http/listener.h"
#include "http/request.h"
#include "http/response.h"
#include "http/tokens.h"
#include "live/discovery.h"

namespace ashlar {
namespace {

void fuzz(std::string_view bytes) {
  if (const auto head = http::parse_response_head(bytes)) {
    ASHLAR_CHECK(head->code >= 100 && head->code < 600);
    ASHLAR_CHECK(bytes.size() <= http::kMaxHeadBytes && bytes.starts_with("HTTP/1.1 "));
  }
  static_cast<void>(http::peer_user_in(bytes, {.own = 0x1f90, .peer = 0xa1b2}));
  for (const std::string& name : live::socket_names_in(bytes)) {
    ASHLAR_CHECK(name.starts_with(live::kSocketPrefix) && name.size() <= 100);
    ASHLAR_CHECK(bytes.find(name) != std::string_view::npos);
  }
}

}  // namespace
}  // namespace ashlar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
