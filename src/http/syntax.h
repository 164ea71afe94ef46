// SPDX-License-Identifier: Apache-2.0
//
// Lexical rules of HTTP heads (RFC 9110). Pure functions.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ashlar::http {

inline constexpr std::string_view kLineEnd = "\r\n";
inline constexpr std::string_view kHeadEnd = "\r\n\r\n";

inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// These functions implement tchar and token of RFC 9110.
inline bool is_token_char(char c) {
  return is_letter(c) || is_digit(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
inline bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

// Returns whether a field value may contain the character: any character except control characters
// other than the tab.
inline bool is_value_char(char c) {
  return c == '\t' || (static_cast<uint8_t>(c) >= ' ' && c != '\x7f');
}

inline bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return to_lower(x) == to_lower(y);
         });
}

inline std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

// Returns whether a comma-separated list such as "keep-alive, Upgrade" contains the word. Ignores
// case.
inline bool list_contains(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (equals_ignoring_case(trimmed(list.substr(0, comma)), word)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// Parses a number that consists only of digits. Returns nullopt for other text and on overflow.
inline std::optional<uint64_t> parse_unsigned(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  if (text.empty() || !is_digit(text.front())) return std::nullopt;
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

}  // namespace ashlar::http
