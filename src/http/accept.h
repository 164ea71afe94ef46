// SPDX-License-Identifier: Apache-2.0
//
// Content negotiation: matches the Accept field of a request against the media types that a handler
// can send (RFC 9110, section 12.5.1). Pure functions.
#pragma once

#include <string_view>

namespace ashlar::http {

struct MediaType {
  std::string_view name;     // such as "text/plain"
  std::string_view version;  // the value of the parameter "version"
};

// How much a client prefers a media type.
struct Preference {
  int thousandths = 0;    // the quality value q, times 1,000; 0: not accepted
  bool is_named = false;  // a range without wildcards matched the type
};

// Returns the preference of the most specific range in `accept` that matches `type`. A range with a
// version matches that version only; other parameters do not restrict a match. Malformed ranges
// match nothing. An empty field accepts every type.
Preference preference_for(std::string_view accept, const MediaType& type);

}  // namespace ashlar::http
