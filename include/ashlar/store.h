// SPDX-License-Identifier: Apache-2.0
//
// Where ranks meet: keys and bytes that all of them see. A store introduces ranks to each other and
// notes that they live; no data goes through it. Three come with Ashlar: for threads of one
// process, for processes that see one folder (both here), and Redis (ashlar/redis_store.h). Whoever
// has another one implements four functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/deadline.h"
#include "ashlar/export.h"
#include "ashlar/status.h"

namespace ashlar::symm {

// Thread safe, and so must be what users write. Every call ends by its deadline, with kTimeout; one
// that has passed already still gets one look.
//
// A key is 1 to 512 printable characters (ASCII, no space); the parts between slashes have 1 to 200
// each. A value has at most 1 MiB. Anything else is kInvalidArgument.
class ASHLAR_EXPORT Store {
 public:
  static constexpr size_t kMostKeyBytes = 512;
  static constexpr size_t kMostKeyPartBytes = 200;
  static constexpr size_t kMostValueBytes = size_t{1} << 20;

  Store() = default;
  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // --- what a store does

  // The key's value from now on, until it is erased or `time_to_live` is over; 0: it has no end.
  virtual Status set(std::string_view key, std::string_view value,
                     std::chrono::milliseconds time_to_live, Deadline deadline) = 0;
  // The values as they are, without waiting for them; none where the key is not there.
  virtual Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                                  Deadline deadline) = 0;
  // Adds to a counter, at once for all who look, and returns what it came to. A key that is not
  // there counts as 0; others read the counter as decimal digits. The time to live begins anew.
  // kFormat: the value is no number. kInvalidArgument: it would not fit 64 bits.
  virtual Result<int64_t> add(std::string_view key, int64_t amount,
                              std::chrono::milliseconds time_to_live, Deadline deadline) = 0;
  // Whether it was there.
  virtual Result<bool> erase(std::string_view key, Deadline deadline) = 0;

  // --- what is made of it

  // The values, once all are there. kTimeout names the keys that are missing.
  Result<std::vector<std::string>> multi_get(std::span<const std::string> keys, Deadline deadline);
  Result<std::string> get(std::string_view key, Deadline deadline);
  Status wait(std::span<const std::string> keys, Deadline deadline);
  // Waits until `count` have come here with this key. A key serves once; nothing is left in the
  // store when all have gone on, and what one who does not come leaves lives for `time_to_live`.
  // kTimeout says how many came.
  Status barrier(std::string_view key, int64_t count, std::chrono::milliseconds time_to_live,
                 Deadline deadline);

  // kInvalidArgument: this is no key.
  static Status check_key(std::string_view key);
  static Status check_value(std::string_view value);

 protected:
  // Waits until something may have been set, at most for so long. By default it sleeps.
  virtual void wait_for_change(std::chrono::nanoseconds most);
};

// For ranks that are threads of one process.
ASHLAR_EXPORT std::shared_ptr<Store> make_memory_store();

// For processes that see the same folder, on one machine or on a shared file system with locks; it
// is made if it is not there. Whoever ends in the middle of a call leaves nobody waiting. Time to
// live is counted by the clock by which the file system notes when files are touched: on most
// shared ones the server's, so that machines' own clocks need not agree.
ASHLAR_EXPORT Result<std::shared_ptr<Store>> open_file_store(const std::string& folder);

// The part of `store` whose keys begin with `prefix` and a slash. kInvalidArgument: the prefix is
// no key.
ASHLAR_EXPORT Result<std::shared_ptr<Store>> make_prefix_store(std::shared_ptr<Store> store,
                                                               std::string prefix);

}  // namespace ashlar::symm
