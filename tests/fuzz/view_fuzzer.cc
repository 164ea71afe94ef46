// SPDX-License-Identifier: Apache-2.0
//
// Sends arbitrary bytes as a request to the viewer. The request must succeed or fail with a status
// code and a message, and must give the same response when it is repeated.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "unit/view/analysis_stub.h"
#include "unit/view/random_run.h"
#include "view/viewer.h"

namespace ashlar::view {
namespace {

// Returns a viewer of a recording that has two levels of tiles and every kind of missing data.
// Requests do not change it.
const Viewer& shared_viewer() {
  static const Viewer* const view = [] {
    // Never destroyed: its thread may still be waiting when the process exits.
    auto* made = new Viewer("ashlar", fixed_causes("{}"));
    const auto recording =
        Recording::create("run", random_snapshot({.seed = 1, .entry_count = 700}));
    ASHLAR_CHECK(made->add(recording).ok());
    static_cast<void>(made->wait_for_response("d/0/causes.json", ""));
    return made;
  }();
  return *view;
}

void fuzz(std::string_view bytes) {
  const size_t mark = std::min(bytes.find('?'), bytes.size());
  const std::string_view path = bytes.substr(0, mark);
  const std::string_view query = bytes.substr(std::min(mark + 1, bytes.size()));
  const http::Response answer = shared_viewer().respond(path, query);
  const bool is_refused = answer.code == 400 || answer.code == 404;
  ASHLAR_CHECK(answer.code == 200 || is_refused);
  ASHLAR_CHECK(is_refused == answer.body.starts_with("{\"error\": \""));
  ASHLAR_CHECK(answer.body == shared_viewer().respond(path, query).body);
}

}  // namespace
}  // namespace ashlar::view

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::view::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
