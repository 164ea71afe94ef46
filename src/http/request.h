// SPDX-License-Identifier: Apache-2.0
//
// The head of an HTTP/1.1 request: the request line and the header fields, up to the empty line.
// Strict: what a browser, curl or Prometheus would not send is refused, not guessed at. Nothing is
// decoded and nothing of the file system is meant. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::http {

// Longer heads are refused as they come in, before they end.
inline constexpr size_t kMostHeadBytes = size_t{16} << 10;
inline constexpr size_t kMostLineBytes = size_t{8} << 10;  // of the request line, or of a field
inline constexpr size_t kMostFields = 64;

enum class Method { kGet, kPost };

struct RequestHead {
  Method method = Method::kGet;
  std::string path{};   // begins with '/'; as sent, percent signs and all
  std::string query{};  // behind the '?', as sent
  std::string host{};
  std::string bearer{};  // the token of "Authorization: Bearer TOKEN"; empty: none
  uint64_t body_bytes = 0;
  bool keeps_alive = true;
  bool expects_continue = false;
};

// The head, or the code of an answer (4xx or 5xx) and the reason to give.
struct ParsedHead {
  std::optional<RequestHead> head{};
  int code = 0;
  std::string_view why{};
};

// `bytes` end with the empty line, which is part of them.
ParsedHead parse_head(std::string_view bytes);

// Where the head ends that these bytes begin with, its empty line included; none: not here yet.
std::optional<size_t> end_of_head(std::string_view bytes);

// "a%20b" as "a b"; none: a percent sign stands before something else than two digits.
std::optional<std::string> percent_decoded(std::string_view text);

// The value of an argument in a query, as sent; none: it is not there, or there twice.
std::optional<std::string_view> argument(std::string_view query, std::string_view name);

}  // namespace ashlar::http
