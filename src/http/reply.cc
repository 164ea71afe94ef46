// SPDX-License-Identifier: Apache-2.0
//
// Line by line; the first thing that is wrong is the end of it.
#include "http/reply.h"

#include <algorithm>

#include "base/text.h"
#include "http/request.h"
#include "http/words.h"

namespace ashlar::http {
namespace {

// "HTTP/1.1 404 Not Found"
std::optional<int> code_in(std::string_view line) {
  constexpr std::string_view kVersion = "HTTP/1.1 ";
  if (!line.starts_with(kVersion)) return std::nullopt;
  line.remove_prefix(kVersion.size());
  const std::optional<uint64_t> code =
      natural(line.substr(0, std::min(line.find(' '), line.size())));
  if (!code || *code < 100 || *code > 599) return std::nullopt;
  return static_cast<int>(*code);
}

}  // namespace

std::optional<ReplyHead> parse_reply_head(std::string_view bytes) {
  if (!bytes.ends_with(kHeadEnd) || bytes.size() > kMostHeadBytes) return std::nullopt;
  bytes.remove_suffix(kLineEnd.size());
  ReplyHead head;
  const std::optional<int> code = code_in(take_line(bytes, kLineEnd));
  if (!code) return std::nullopt;
  head.code = *code;
  std::optional<uint64_t> body_bytes;
  while (!bytes.empty()) {
    const std::string_view line = take_line(bytes, kLineEnd);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) return std::nullopt;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (same_word(name, "transfer-encoding")) return std::nullopt;
    if (same_word(name, "connection") && lists(value, "close")) head.keeps_alive = false;
    if (!same_word(name, "content-length")) continue;
    if (body_bytes) return std::nullopt;
    body_bytes = natural(value);
    if (!body_bytes) return std::nullopt;
  }
  if (!body_bytes) return std::nullopt;
  head.body_bytes = *body_bytes;
  return head;
}

}  // namespace ashlar::http
