// SPDX-License-Identifier: Apache-2.0
//
// What a server says: a code, and a body with its type. Pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace ashlar::http {

struct Answer {
  int code = 200;
  std::string_view type = "application/json";  // of a text that lives as long as the program
  std::string body{};
  std::string location{};  // of 303: where to go; empty: nowhere
  // What ends when the answer has been sent, or nobody wants it any more. Shared, since answers can
  // be copied: the last copy ends it.
  std::shared_ptr<const void> until_sent{};
};

// {"error": "…"}, for programs that show it to people.
Answer refusal(int code, std::string_view why);

// Everything before the body. Nothing is kept by caches, and a page may load nothing that is not
// its own: scripts and styles stand in the page itself, pictures are made there.
std::string head_of(const Answer& answer, bool keeps_alive);

}  // namespace ashlar::http
