// SPDX-License-Identifier: Apache-2.0
//
// The words that go with the codes, and the fields that go with every answer.
#include "http/answer.h"

#include <cstdint>

#include "base/text.h"

namespace ashlar::http {
namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' blob: data:; font-src data:; connect-src 'self'; worker-src 'self' blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view reason(int code) {
  switch (code) {
    case 200: return "OK";
    case 202: return "Accepted";
    case 303: return "See Other";
    case 400: return "Bad Request";
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

std::string as_json_text(std::string_view plain) {
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

}  // namespace

Answer refusal(int code, std::string_view why) {
  Answer answer;
  answer.code = code;
  answer.body = text("{\"error\": \"", as_json_text(why), "\"}\n");
  return answer;
}

std::string head_of(const Answer& answer, bool keeps_alive) {
  return text("HTTP/1.1 ", answer.code, " ", reason(answer.code), "\r\nContent-Type: ", answer.type,
              "\r\nContent-Length: ", answer.body.size(),
              answer.code == 405 ? "\r\nAllow: GET, POST" : "",
              answer.location.empty() ? "" : "\r\nLocation: ", answer.location,
              "\r\nConnection: ", keeps_alive ? "keep-alive" : "close",
              "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff"
              "\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: ",
              kPolicy, "\r\n\r\n");
}

}  // namespace ashlar::http
