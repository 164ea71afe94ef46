// SPDX-License-Identifier: Apache-2.0
//
// Line by line; the first thing that is wrong decides the answer.
#include "http/request.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "http/words.h"

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
    if (!bytes.ends_with(kHeadEnd)) return refuse(400, "the head of the request does not end");
    bytes.remove_suffix(kLineEnd.size());
    size_t line_count = 0;
    while (!bytes.empty()) {
      const std::string_view line = take_line(bytes, kLineEnd);
      if (line.size() > kMostLineBytes) return refuse(431, "a line of the head is too long");
      if (line_count > kMostFields) return refuse(431, "there are too many header fields");
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

  // "GET /path?query HTTP/1.1"
  bool take_request_line(std::string_view line) {
    const size_t first = line.find(' ');
    const size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) {
      return fail(400, "the request line is not: method, target, version");
    }
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    if (!is_token(method)) return fail(400, "the method is no word");
    const bool is_target =
        target.starts_with('/') && std::all_of(target.begin(), target.end(), is_target_char);
    if (!is_target) return fail(400, "the target is no path");
    const bool is_version = version.size() == 8 && version.starts_with("HTTP/") &&
                            is_digit(version[5]) && version[6] == '.' && is_digit(version[7]);
    if (!is_version) return fail(400, "the version is none of HTTP's");
    if (version != "HTTP/1.1") return fail(505, "only HTTP/1.1 is spoken here");
    if (method != "GET" && method != "POST") return fail(405, "only GET and POST are known here");
    head_.method = method == "GET" ? Method::kGet : Method::kPost;
    const size_t question = std::min(target.find('?'), target.size());
    head_.path = target.substr(0, question);
    if (question < target.size()) head_.query = target.substr(question + 1);
    return true;
  }

  bool take_field(std::string_view line) {
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, std::min(colon, line.size()));
    if (colon == std::string_view::npos || !is_token(name)) {
      return fail(400, "a header field is not: name, colon, value");
    }
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (!std::all_of(value.begin(), value.end(), is_value_char)) {
      return fail(400, "a header field has a control character");
    }
    if (same_word(name, "host")) return take_host(value);
    if (same_word(name, "content-length")) return take_length(value);
    if (same_word(name, "authorization")) return take_authorization(value);
    if (same_word(name, "transfer-encoding")) {
      return fail(411, "a body comes with its Content-Length here");
    }
    if (same_word(name, "connection") && lists(value, "close")) head_.keeps_alive = false;
    if (same_word(name, "expect")) {
      if (!same_word(value, "100-continue")) return fail(417, "nobody knows that expectation");
      head_.expects_continue = true;
    }
    return true;
  }

  bool take_host(std::string_view value) {
    if (has_host_ || value.empty()) return fail(400, "a request names one host");
    has_host_ = true;
    head_.host = value;
    return true;
  }

  // Other schemes are not ours to judge: who shows no token here may have it in the path.
  bool take_authorization(std::string_view value) {
    constexpr std::string_view kScheme = "bearer ";
    if (has_authorization_) return fail(400, "a request has one Authorization");
    has_authorization_ = true;
    if (same_word(value.substr(0, kScheme.size()), kScheme)) {
      head_.bearer = trimmed(value.substr(kScheme.size()));
    }
    return true;
  }

  bool take_length(std::string_view value) {
    const std::optional<uint64_t> bytes = natural(value);
    if (has_length_ || !bytes) return fail(400, "the Content-Length is not one number");
    has_length_ = true;
    head_.body_bytes = *bytes;
    return true;
  }

  ParsedHead finish() {
    if (!has_host_) return refuse(400, "a request names one host");
    if (head_.method == Method::kPost && !has_length_) {
      return refuse(411, "a body comes with its Content-Length here");
    }
    if (head_.method == Method::kGet && head_.body_bytes > 0) {
      return refuse(400, "GET has no body");
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
  const char small = lower(c);
  if (small >= 'a' && small <= 'f') return static_cast<uint8_t>(small - 'a' + 10);
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

std::optional<std::string_view> argument(std::string_view query, std::string_view name) {
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
