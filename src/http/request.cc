// SPDX-License-Identifier: Apache-2.0
//
// Parses a head line by line. The first error determines the response.
#include "http/request.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "http/syntax.h"

namespace ashlar::http {
namespace {

ParsedHead refuse(int code, std::string_view why) {
  ParsedHead parsed;
  parsed.code = code;
  parsed.why = why;
  return parsed;
}

bool is_target_char(char c) { return c > ' ' && c < '\x7f' && c != '#'; }

class Parser {
 public:
  ParsedHead parse(std::string_view bytes) {
    if (!bytes.ends_with(kHeadEnd)) return refuse(400, "the request head is incomplete");
    bytes.remove_suffix(kLineEnd.size());
    size_t line_count = 0;
    while (!bytes.empty()) {
      const std::string_view line = take_line(bytes, kLineEnd);
      if (line.size() > kMaxLineBytes) return refuse(431, "a header line is too long");
      if (line_count > kMaxFields) return refuse(431, "there are too many header fields");
      if (line_count == 0 ? !take_request_line(line) : !take_field(line)) return refused_;
      ++line_count;
    }
    return finish();
  }

 private:
  bool fail(int code, std::string_view why) {
    refused_ = refuse(code, why);
    return false;
  }

  // Parses "GET /path?query HTTP/1.1".
  bool take_request_line(std::string_view line) {
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) {
      return fail(400, "malformed request line (expected: method target version)");
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    if (!is_token(method)) return fail(400, "malformed method");
    const bool is_target =
        target.starts_with('/') && std::all_of(target.begin(), target.end(), is_target_char);
    if (!is_target) return fail(400, "the target is not a path");
    const bool is_version = version.size() == 8 && version.starts_with("HTTP/") &&
                            is_digit(version[5]) && version[6] == '.' && is_digit(version[7]);
    if (!is_version) return fail(400, "malformed HTTP version");
    if (version != "HTTP/1.1") return fail(505, "only HTTP/1.1 is supported");
    if (method != "GET" && method != "POST") return fail(405, "only GET and POST are supported");
    head_.method = method == "GET" ? Method::kGet : Method::kPost;
    const size_t query_begin = std::min(target.find('?'), target.size());
    head_.path = target.substr(0, query_begin);
    if (query_begin < target.size()) head_.query = target.substr(query_begin + 1);
    return true;
  }

  bool take_field(std::string_view line) {
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, std::min(colon, line.size()));
    if (colon == std::string_view::npos || !is_token(name)) {
      return fail(400, "malformed header field (expected: name: value)");
    }
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (!std::all_of(value.begin(), value.end(), is_value_char)) {
      return fail(400, "a header field contains a control character");
    }
    if (equals_ignoring_case(name, "host")) return take_host(value);
    if (equals_ignoring_case(name, "content-length")) return take_length(value);
    if (equals_ignoring_case(name, "authorization")) return take_authorization(value);
    if (equals_ignoring_case(name, "accept")) {
      head_.accept += text(head_.accept.empty() ? "" : ",", value);
    }
    if (equals_ignoring_case(name, "transfer-encoding")) {
      return fail(411, "Content-Length is required");
    }
    if (equals_ignoring_case(name, "connection") && list_contains(value, "close"))
      head_.keeps_alive = false;
    if (equals_ignoring_case(name, "expect")) {
      if (!equals_ignoring_case(value, "100-continue"))
        return fail(417, "unsupported Expect value");
      head_.expects_continue = true;
    }
    return true;
  }

  bool take_host(std::string_view value) {
    if (has_host_ || value.empty()) return fail(400, "exactly one Host is required");
    has_host_ = true;
    head_.host = value;
    return true;
  }

  // Takes the token of an Authorization field. Ignores schemes other than Bearer, because the token
  // may be in the path instead.
  bool take_authorization(std::string_view value) {
    constexpr std::string_view kScheme = "bearer ";
    if (has_authorization_) return fail(400, "only one Authorization is allowed");
    has_authorization_ = true;
    if (equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
      head_.bearer = trimmed(value.substr(kScheme.size()));
    }
    return true;
  }

  bool take_length(std::string_view value) {
    const std::optional<uint64_t> bytes = parse_unsigned(value);
    if (has_length_ || !bytes) return fail(400, "malformed Content-Length");
    has_length_ = true;
    head_.body_bytes = *bytes;
    return true;
  }

  ParsedHead finish() {
    if (!has_host_) return refuse(400, "exactly one Host is required");
    if (head_.method == Method::kPost && !has_length_) {
      return refuse(411, "Content-Length is required");
    }
    if (head_.method == Method::kGet && head_.body_bytes > 0) {
      return refuse(400, "GET must not have a body");
    }
    ParsedHead parsed;
    parsed.head = std::move(head_);
    return parsed;
  }

  RequestHead head_;
  ParsedHead refused_;
  bool has_host_ = false;
  bool has_length_ = false;
  bool has_authorization_ = false;
};

std::optional<uint8_t> hex_digit(char c) {
  if (is_digit(c)) return static_cast<uint8_t>(c - '0');
  const char lower_case = to_lower(c);
  if (lower_case >= 'a' && lower_case <= 'f') return static_cast<uint8_t>(lower_case - 'a' + 10);
  return std::nullopt;
}

}  // namespace

ParsedHead parse_head(std::string_view bytes) { return Parser().parse(bytes); }

std::optional<size_t> end_of_head(std::string_view bytes) {
  const size_t at = bytes.find(kHeadEnd);
  if (at == std::string_view::npos) return std::nullopt;
  return at + kHeadEnd.size();
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const std::optional<uint8_t> high = hex_digit(text[i + 1]);
    const std::optional<uint8_t> low = hex_digit(text[i + 2]);
    if (!high || !low) return std::nullopt;
    decoded.push_back(static_cast<char>(*high * 16 + *low));
    i += 2;
  }
  return decoded;
}

std::optional<std::string_view> query_argument(std::string_view query, std::string_view name) {
  std::optional<std::string_view> found;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const size_t equals = std::min(part.find('='), part.size());
    if (part.substr(0, equals) != name) continue;
    if (found) return std::nullopt;
    found = part.substr(std::min(equals + 1, part.size()));
  }
  return found;
}

}  // namespace ashlar::http
