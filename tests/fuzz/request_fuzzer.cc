// SPDX-License-Identifier: Apache-2.0
//
// Parses arbitrary bytes as the head of an HTTP request. The parser must accept the head or reject
// it with a status code, and all results must lie within the input. Also matches the Accept field,
// and decodes arguments and percent-encoding.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "http/accept.h"
#include "http/request.h"

namespace ashlar::http {
namespace {

void fuzz(std::string_view bytes) {
  const ParsedHead parsed = parse_head(bytes);
  if (!parsed.head) {
    ASHLAR_CHECK(parsed.code >= 400 && parsed.code < 600 && !parsed.why.empty());
    return;
  }
  const RequestHead& head = *parsed.head;
  ASHLAR_CHECK(end_of_head(bytes) == bytes.size());
  ASHLAR_CHECK(head.path.starts_with('/') && head.path.find('?') == std::string::npos);
  ASHLAR_CHECK(bytes.find(head.path) != std::string_view::npos);
  ASHLAR_CHECK(bytes.find(head.query) != std::string_view::npos);
  ASHLAR_CHECK(!head.host.empty() && bytes.find(head.host) != std::string_view::npos);
  ASHLAR_CHECK(bytes.find(head.bearer) != std::string_view::npos);
  const Preference preference =
      preference_for(head.accept, {.name = "text/plain", .version = "0.0.4"});
  ASHLAR_CHECK(preference.thousandths >= 0 && preference.thousandths <= 1000);
  ASHLAR_CHECK(head.method == Method::kPost || head.body_bytes == 0);
  if (const auto value = query_argument(head.query, "search")) {
    const auto plain = percent_decoded(*value);
    ASHLAR_CHECK(!plain || plain->size() <= value->size());
  }
}

}  // namespace
}  // namespace ashlar::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::http::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
