// SPDX-License-Identifier: Apache-2.0
//
// Parses arbitrary bytes as a request to a TCP store and as a response of its server. Whatever a
// parser accepts must serialize to the same bytes. Accepted requests are performed on a store with
// little memory.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "symm/stores/tcp/store_service.h"

namespace ashlar::symm {
namespace {

void fuzz(std::string_view bytes) {
  if (const Result<StoreRequest> request = parse_request(bytes); request.ok()) {
    ASHLAR_CHECK(serialize(*request).substr(kFrameHeaderBytes) == bytes);
    StoreService service(4096);
    const StoreService::Time now{std::chrono::hours(1)};
    for (int i = 0; i < 2; ++i) {
      const StoreResponse response = service.perform(*request, now);
      ASHLAR_CHECK(serialize(response).size() <= kFrameHeaderBytes + kMaxResponseBytes);
    }
  }
  if (const Result<StoreResponse> response = parse_response(bytes); response.ok()) {
    ASHLAR_CHECK(serialize(*response).substr(kFrameHeaderBytes) == bytes);
  }
}

}  // namespace
}  // namespace ashlar::symm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::symm::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
