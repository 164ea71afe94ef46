// SPDX-License-Identifier: Apache-2.0
//
// HTTP responses: the values that handlers return, and the parser that the client uses. Pure
// functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::http {

struct Response {
  int code = 200;
  std::string_view type = "application/json";  // refers to a string literal
  std::string body{};
  std::string location{};  // target of a 303 redirect; empty if none
  // An object of the handler that is destroyed when only the last bytes of the response remain to
  // be sent (Server::send_body), or when the response is abandoned. Shared, because responses can
  // be copied; the last copy destroys it.
  std::shared_ptr<const void> keep_until_sent{};
};

// Returns a response with the body {"error": "WHY"}.
Response error_response(int code, std::string_view why);

// Formats the status line and header fields. The fields forbid caching, and allow pages only
// resources of this server, inline scripts and styles, blob URLs for images and workers, and data
// URLs for images and fonts.
std::string format_head(const Response& response, bool keeps_alive);

struct ResponseHead {
  int code = 0;  // 100 to 599
  uint64_t body_bytes = 0;
  bool keeps_alive = true;
};

// Parses a status line and header fields, strictly, because the peer may be any program. `bytes`
// end with the empty line. Returns nullopt if `bytes` are not an HTTP/1.1 head with exactly one
// Content-Length.
std::optional<ResponseHead> parse_response_head(std::string_view bytes);

}  // namespace ashlar::http
