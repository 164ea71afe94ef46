// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a question to `ashlar view`: it is answered, or refused with a code and a sentence,
// and the same question gets the same answer again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "unit/view/random_run.h"
#include "view/view.h"

namespace ashlar::view {
namespace {

// A run with two levels of tiles, and all that traces can lack. Made once; questions change
// nothing.
const View& shown() {
  static const View* const view = [] {
    const auto explain = [](const DeviceRecording&, const std::function<bool()>&) {
      return Result<std::string>("{}");
    };
    // Never ended: a thread of its own may still be waiting when the process ends.
    auto* made = new View("ashlar", explain);
    const auto recording =
        Recording::create("run", random_snapshot({.seed = 1, .entry_count = 700}));
    ASHLAR_CHECK(made->add(recording).ok());
    static_cast<void>(made->wait_for_answer("d/0/causes.json", ""));
    return made;
  }();
  return *view;
}

void fuzz(std::string_view bytes) {
  const size_t mark = std::min(bytes.find('?'), bytes.size());
  const std::string_view path = bytes.substr(0, mark);
  const std::string_view query = bytes.substr(std::min(mark + 1, bytes.size()));
  const http::Response answer = shown().answer(path, query);
  const bool is_refused = answer.code == 400 || answer.code == 404;
  ASHLAR_CHECK(answer.code == 200 || is_refused);
  ASHLAR_CHECK(is_refused == answer.body.starts_with("{\"error\": \""));
  ASHLAR_CHECK(answer.body == shown().answer(path, query).body);
}

}  // namespace
}  // namespace ashlar::view

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::view::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
