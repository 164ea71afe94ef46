// SPDX-License-Identifier: Apache-2.0
//
// The head of an answer as whoever asked reads it: strict, since the other process may be anybody's
// program. Only what a server of ours says is understood. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ashlar::http {

struct ReplyHead {
  int code = 0;  // 100 to 599
  uint64_t body_bytes = 0;
  bool keeps_alive = true;
};

// `bytes` end with the empty line, which is part of them. None: it is no head of HTTP/1.1, or does
// not say once how long the body is.
std::optional<ReplyHead> parse_reply_head(std::string_view bytes);

}  // namespace ashlar::http
