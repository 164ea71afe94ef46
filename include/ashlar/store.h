// SPDX-License-Identifier: Apache-2.0
//
// A small key-value store that all ranks can reach. Ranks use it to find each other and to publish
// heartbeats; no bulk data goes through it. Ashlar has stores for the threads of one process, for
// processes that share a folder (both in this header), for TCP (ashlar/tcp_store.h) and for Redis
// (ashlar/redis_store.h). To use another system, implement the four pure virtual functions.
//
// Errors: a `Store` returns Status or Result and must not throw; functions that open stores throw,
// and their `try_` forms return a Result.
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

// Implementations must be thread safe. Every call returns by its deadline, with kTimeout if the
// operation is not complete by then. A call whose deadline has already passed still tries the
// operation once.
//
// A key has 1 to 512 printable ASCII characters without spaces; the parts between slashes have 1 to
// 200 characters each. A value has at most 1 MiB. Other keys and values are kInvalidArgument.
class ASHLAR_EXPORT Store {
 public:
  static constexpr size_t kMaxKeyBytes = 512;
  static constexpr size_t kMaxKeyPartBytes = 200;
  static constexpr size_t kMaxValueBytes = size_t{1} << 20;

  Store() = default;
  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Sets the value of a key, which expires after `time_to_live`; 0 means never.
  virtual Status set(std::string_view key, std::string_view value,
                     std::chrono::milliseconds time_to_live, Deadline deadline) = 0;
  // Returns the current value of each key, without waiting; nullopt for a key that does not exist.
  virtual Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                                  Deadline deadline) = 0;
  // Adds to a counter atomically and returns the new value. A key that does not exist counts as 0.
  // Readers see the counter as decimal digits. The call restarts the key's time to live. kFormat:
  // the value is not a number. kInvalidArgument: the result overflows 64 bits.
  virtual Result<int64_t> add(std::string_view key, int64_t amount,
                              std::chrono::milliseconds time_to_live, Deadline deadline) = 0;
  // Erases a key and returns whether it existed.
  virtual Result<bool> erase(std::string_view key, Deadline deadline) = 0;

  // Waits until all keys exist, and returns their values. The message of kTimeout names the missing
  // keys.
  Result<std::vector<std::string>> multi_get(std::span<const std::string> keys, Deadline deadline);
  // Waits until the key exists, and returns its value.
  Result<std::string> get(std::string_view key, Deadline deadline);
  // Waits until all keys exist.
  Status wait(std::span<const std::string> keys, Deadline deadline);
  // Waits until `count` callers have called barrier with this key. A key can be used for one
  // barrier only. When all callers have returned ok, the store has no keys of the barrier left; if
  // a caller never arrives, the keys expire after `time_to_live`. If callers are missing at the
  // deadline, the message of kTimeout states how many arrived.
  Status barrier(std::string_view key, int64_t count, std::chrono::milliseconds time_to_live,
                 Deadline deadline);

  // Returns kInvalidArgument if `key` violates the rules above.
  static Status check_key(std::string_view key);
  // Returns kInvalidArgument if `value` violates the rules above.
  static Status check_value(std::string_view value);

 protected:
  // Waits until a key may have changed, but at most `max_wait`. The default implementation sleeps
  // for `max_wait`.
  virtual void wait_for_change(std::chrono::nanoseconds max_wait);
};

// Creates a store for ranks that are threads of one process.
ASHLAR_EXPORT std::shared_ptr<Store> make_memory_store();

struct FileStoreOptions {
  // Accepts a folder that belongs to another user, or to which other users can write. Those users
  // can delete the store's files, and can replace them with records of their own, which make ranks
  // connect to processes of those users. Set this only if all those users are trusted.
  bool allow_shared_folder = false;
};

// Opens a store for processes of one user that share a folder, on one machine or on a network file
// system with locks. Creates the folder if necessary. A process that dies during a call does not
// block others. Times to live are measured by the file system's timestamps, so that clocks of
// different machines need not agree.
//
// Throws InvalidArgument if `folder` is a symbolic link, belongs to another user, or can be written
// by other users (see FileStoreOptions). Throws DeviceError if the folder cannot be used for
// another reason. Never follows a symbolic link below the folder.
ASHLAR_EXPORT Result<std::shared_ptr<Store>> try_open_file_store(
    const std::string& folder, const FileStoreOptions& options = {});
inline std::shared_ptr<Store> open_file_store(const std::string& folder,
                                              const FileStoreOptions& options = {}) {
  return try_open_file_store(folder, options).value();
}

// Returns a view of `store` in which every key is prefixed with `prefix` and a slash. Throws
// InvalidArgument if the prefix is not a valid key.
ASHLAR_EXPORT Result<std::shared_ptr<Store>> try_make_prefix_store(std::shared_ptr<Store> store,
                                                                   std::string prefix);
inline std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> store, std::string prefix) {
  return try_make_prefix_store(std::move(store), std::move(prefix)).value();
}

}  // namespace ashlar::symm
