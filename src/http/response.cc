// SPDX-License-Identifier: Apache-2.0
//
// Formats heads of responses, with reason phrases and security headers, and parses them.
#include "http/response.h"

#include <algorithm>

#include <cstdint>

#include "base/text.h"
#include "http/request.h"
#include "http/syntax.h"

namespace ashlar::http {
namespace {

constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob: data:; font-src data:; connect-src 'self'; worker-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view reason(int code) {
  switch (code) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 303: return "See Other";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return code < 500 ? "Refused" : "Internal Server Error";
  }
}

std::string escape_json(std::string_view plain) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string quoted;
  for (const char c : plain) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20) {
      quoted += "\\u00";
      quoted += kDigits[byte >> 4];
      quoted += kDigits[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted;
}

// Parses the status code of a line such as "HTTP/1.1 404 Not Found".
std::optional<int> parse_status_code(std::string_view line) {
  constexpr std::string_view kVersion = "HTTP/1.1 ";
  if (!line.starts_with(kVersion)) return std::nullopt;
  line.remove_prefix(kVersion.size());
  const std::optional<uint64_t> code =
      parse_unsigned(line.substr(0, std::min(line.find(' '), line.size())));
  if (!code || *code < 100 || *code > 599) return std::nullopt;
  return static_cast<int>(*code);
}

}  // namespace

Response error_response(int code, std::string_view why) {
  Response response;
  response.code = code;
  response.body = text("{\"error\": \"", escape_json(why), "\"}\n");
  return response;
}

std::string format_head(const Response& response, bool keeps_alive) {
  return text("HTTP/1.1 ", response.code, " ", reason(response.code),
              "\r\nContent-Type: ", response.type, "\r\nContent-Length: ", response.body.size(),
              response.code == 405 ? "\r\nAllow: GET, POST" : "",
              response.code == 401 ? "\r\nWWW-Authenticate: Bearer realm=\"ashlar\"" : "",
              response.location.empty() ? "" : "\r\nLocation: ", response.location,
              "\r\nConnection: ", keeps_alive ? "keep-alive" : "close",
              "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
              "\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: ",
              kContentSecurityPolicy, "\r\n\r\n");
}

std::optional<ResponseHead> parse_response_head(std::string_view bytes) {
  if (!bytes.ends_with(kHeadEnd) || bytes.size() > kMaxHeadBytes) return std::nullopt;
  bytes.remove_suffix(kLineEnd.size());
  ResponseHead head;
  const std::optional<int> code = parse_status_code(take_line(bytes, kLineEnd));
  if (!code) return std::nullopt;
  head.code = *code;
  std::optional<uint64_t> body_bytes;
  while (!bytes.empty()) {
    const std::string_view line = take_line(bytes, kLineEnd);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return std::nullopt;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (equals_ignoring_case(name, "transfer-encoding")) return std::nullopt;
    if (equals_ignoring_case(name, "connection") && list_contains(value, "close"))
      head.keeps_alive = false;
    if (!equals_ignoring_case(name, "content-length")) continue;
    if (body_bytes) return std::nullopt;
    body_bytes = parse_unsigned(value);
    if (!body_bytes) return std::nullopt;
  }
  if (!body_bytes) return std::nullopt;
  head.body_bytes = *body_bytes;
  return head;
}

}  // namespace ashlar::http
