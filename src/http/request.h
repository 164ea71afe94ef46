// SPDX-License-Identifier: Apache-2.0
//
// Parses the head of an HTTP/1.1 request: the request line and header fields up to the empty line.
// The parser is strict: it rejects malformed heads, and features that the servers do not need, such
// as chunked bodies. It does not decode paths and queries. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::http {

// The maximum size of a head. A longer head is rejected while it is being received.
inline constexpr size_t kMaxHeadBytes = size_t{16} << 10;
inline constexpr size_t kMaxLineBytes = size_t{8}
                                        << 10;  // limit for the request line and for each field
inline constexpr size_t kMaxFields = 64;

enum class Method { kGet, kPost };

struct RequestHead {
  Method method = Method::kGet;
  std::string path{};   // path, which starts with '/'; not decoded
  std::string query{};  // part after the '?'; not decoded
  std::string host{};
  std::string bearer{};  // TOKEN of "Authorization: Bearer TOKEN"; empty if none
  std::string accept{};  // all Accept fields, separated by commas
  uint64_t body_bytes = 0;
  bool keeps_alive = true;
  bool expects_continue = false;
};

// The head, or the status code (4xx or 5xx) and the reason for rejecting it.
struct ParsedHead {
  std::optional<RequestHead> head{};
  int code = 0;
  std::string_view why{};
};

// Parses a complete head, which ends with an empty line.
ParsedHead parse_head(std::string_view bytes);

// Returns the size of the head at the start of `bytes`, including its empty line; nullopt if the
// head is incomplete.
std::optional<size_t> end_of_head(std::string_view bytes);

// Decodes "a%20b" to "a b". Returns nullopt if a percent sign is not followed by two hexadecimal
// digits.
std::optional<std::string> percent_decoded(std::string_view text);

// Returns the value of an argument in a query such as "a=1&b=2", without decoding it; nullopt if
// the argument is absent or repeated.
std::optional<std::string_view> query_argument(std::string_view query, std::string_view name);

}  // namespace ashlar::http
