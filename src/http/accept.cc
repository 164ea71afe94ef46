// SPDX-License-Identifier: Apache-2.0
//
// Parses the list of media ranges one range at a time and keeps the most specific match.
#include "http/accept.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "http/syntax.h"

namespace ashlar::http {
namespace {

// Removes the text up to the next `separator` outside of a quoted string and returns it without
// surrounding spaces.
std::string_view take_part(std::string_view& rest, char separator) {
  bool is_quoted = false;
  size_t end = 0;
  for (; end < rest.size() && (is_quoted || rest[end] != separator); ++end) {
    if (is_quoted && rest[end] == '\\' && end + 1 < rest.size()) {
      ++end;
    } else if (rest[end] == '"') {
      is_quoted = !is_quoted;
    }
  }
  const std::string_view part = trimmed(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

// Parses a quality value such as "0.75": 0 to 1 with at most three decimals.
std::optional<int> parse_thousandths(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  int thousandths = (text[0] - '0') * 1000;
  int digit_value = 100;
  for (const char c : text.substr(std::min<size_t>(2, text.size()))) {
    if (!is_digit(c)) return std::nullopt;
    thousandths += (c - '0') * digit_value;
    digit_value /= 10;
  }
  if (thousandths > 1000) return std::nullopt;
  return thousandths;
}

std::string_view without_quotes(std::string_view value) {
  const bool is_quoted = value.size() >= 2 && value.starts_with('"') && value.ends_with('"');
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

struct RangeMatch {
  // 0: no match; 2: "*/*"; 4: a range such as "text/*"; 6: the full name. Plus 1 if the range has a
  // version.
  int specificity = 0;
  int thousandths = 1000;
};

int specificity_of(std::string_view range_name, std::string_view type_name) {
  if (equals_ignoring_case(range_name, type_name)) return 6;
  if (range_name == "*/*") return 2;
  const size_t slash = type_name.find('/');
  const bool is_subtype_wildcard = range_name.size() == slash + 2 && range_name.ends_with("/*");
  if (!is_subtype_wildcard) return 0;
  return equals_ignoring_case(range_name.substr(0, slash), type_name.substr(0, slash)) ? 4 : 0;
}

RangeMatch match_range(std::string_view range, const MediaType& type) {
  RangeMatch match;
  match.specificity = specificity_of(take_part(range, ';'), type.name);
  while (match.specificity > 0 && !range.empty()) {
    const std::string_view parameter = take_part(range, ';');
    const size_t equals = std::min(parameter.find('='), parameter.size());
    const std::string_view name = trimmed(parameter.substr(0, equals));
    const std::string_view value =
        trimmed(parameter.substr(std::min(equals + 1, parameter.size())));
    if (equals_ignoring_case(name, "q")) {
      const std::optional<int> thousandths = parse_thousandths(value);
      if (!thousandths) return {};
      match.thousandths = *thousandths;
    } else if (equals_ignoring_case(name, "version")) {
      if (without_quotes(value) != type.version) return {};
      match.specificity |= 1;
    }
  }
  return match;
}

}  // namespace

Preference preference_for(std::string_view accept, const MediaType& type) {
  if (trimmed(accept).empty()) return {.thousandths = 1000, .is_named = false};
  RangeMatch best{.specificity = 0, .thousandths = 0};
  while (!accept.empty()) {
    const RangeMatch match = match_range(take_part(accept, ','), type);
    if (match.specificity > best.specificity) best = match;
  }
  return {.thousandths = best.thousandths, .is_named = best.specificity >= 6};
}

}  // namespace ashlar::http
