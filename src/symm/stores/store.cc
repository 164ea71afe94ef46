// SPDX-License-Identifier: Apache-2.0
//
// The functions of `Store` that do not depend on the implementation: key rules, waiting, barriers.
#include "ashlar/store.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "base/text.h"
#include "symm/stores/store_helpers.h"

namespace ashlar::symm {
namespace {

// The polling interval is short at first, because peers usually arrive together. It then doubles up
// to a maximum, so that a hundred waiting ranks do not overload the store.
constexpr std::chrono::microseconds kMinPollInterval{50};
constexpr std::chrono::milliseconds kMaxPollInterval{10};
constexpr size_t kMaxListedKeys = 8;

Status missing_keys_error(std::span<const std::string> keys) {
  std::string named;
  for (size_t i = 0; i < std::min(keys.size(), kMaxListedKeys); ++i) {
    named += text(i == 0 ? "" : ", ", keys[i]);
  }
  if (keys.size() > kMaxListedKeys) named += text(" and ", keys.size() - kMaxListedKeys, " more");
  return Status::timeout(text("not in the store before the deadline: ", named));
}

}  // namespace

Store::~Store() = default;

void Store::wait_for_change(std::chrono::nanoseconds max_wait) {
  std::this_thread::sleep_for(max_wait);
}

Result<std::vector<std::string>> Store::multi_get(std::span<const std::string> keys,
                                                  Deadline deadline) {
  std::vector<std::string> values(keys.size());
  std::vector<size_t> indexes(keys.size());  // where the missing keys are in `keys`
  for (size_t i = 0; i < keys.size(); ++i) indexes[i] = i;
  std::vector<std::string> missing(keys.begin(), keys.end());
  std::chrono::nanoseconds pause = kMinPollInterval;
  while (!missing.empty()) {
    Result<std::vector<std::optional<std::string>>> found =
        checked_try_get(*this, missing, deadline);
    if (!found.ok()) return found.status();
    std::vector<size_t> indexes_left;
    std::vector<std::string> left;
    for (size_t i = 0; i < missing.size(); ++i) {
      if ((*found)[i]) {
        values[indexes[i]] = *std::move((*found)[i]);
      } else {
        indexes_left.push_back(indexes[i]);
        left.push_back(missing[i]);
      }
    }
    indexes.swap(indexes_left);
    missing.swap(left);
    if (missing.empty()) break;
    if (deadline.has_passed()) return missing_keys_error(missing);
    wait_for_change(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kMaxPollInterval);
  }
  return values;
}

Result<std::string> Store::get(std::string_view key, Deadline deadline) {
  const std::string keys[] = {std::string(key)};
  Result<std::vector<std::string>> values = multi_get(keys, deadline);
  if (!values.ok()) return values.status();
  return std::move(values->front());
}

Status Store::wait(std::span<const std::string> keys, Deadline deadline) {
  return multi_get(keys, deadline).status();
}

// Counts arrivals and departures under two keys. The last rank to depart erases both keys, which no
// other rank reads any more.
Status Store::barrier(std::string_view key, int64_t count, std::chrono::milliseconds time_to_live,
                      Deadline deadline) {
  if (count < 1)
    return Status::invalid_argument(text("barrier of ", count, " ranks: expected 1 or more"));
  const std::string arrival_key[] = {text(key, "/come")};
  const std::string departure_key = text(key, "/gone");
  const Result<int64_t> own_number = add(arrival_key[0], 1, time_to_live, deadline);
  if (!own_number.ok()) return own_number.status();
  int64_t arrived = *own_number;
  std::chrono::nanoseconds pause = kMinPollInterval;
  while (arrived < count) {
    const Result<std::vector<std::string>> seen = multi_get(arrival_key, deadline);
    if (!seen.ok()) return seen.status();
    const std::string& digits = seen->front();
    arrived = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), arrived);
    if (arrived >= count) break;
    if (deadline.has_passed()) {
      return Status::timeout(
          text(arrived, " of ", count, " ranks reached the barrier ", key, " before the deadline"));
    }
    wait_for_change(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kMaxPollInterval);
  }
  const Result<int64_t> departed = add(departure_key, 1, time_to_live, deadline);
  if (!departed.ok()) return departed.status();
  if (*departed < count) return {};
  const Result<bool> first_erased = erase(arrival_key[0], deadline);
  if (!first_erased.ok()) return first_erased.status();
  return erase(departure_key, deadline).status();
}

Status Store::check_key(std::string_view key) {
  const auto is_printable = [](char c) { return c > ' ' && c <= '~'; };
  if (key.empty() || key.size() > kMaxKeyBytes ||
      !std::all_of(key.begin(), key.end(), is_printable)) {
    return Status::invalid_argument(text("a key of ", key.size(), " bytes: expected 1 to ",
                                         kMaxKeyBytes, " printable characters without spaces"));
  }
  for (std::string_view left = key;;) {
    const size_t slash = left.find('/');
    const std::string_view part = left.substr(0, slash);
    if (part.empty() || part.size() > kMaxKeyPartBytes) {
      return Status::invalid_argument(text("key ", key, ": expected 1 to ", kMaxKeyPartBytes,
                                           " characters between slashes, found ", part.size()));
    }
    if (slash == std::string_view::npos) return {};
    left.remove_prefix(slash + 1);
  }
}

Status Store::check_value(std::string_view value) {
  if (value.size() <= kMaxValueBytes) return {};
  return Status::invalid_argument(
      text("a value of ", value.size(), " bytes: expected at most ", kMaxValueBytes));
}

}  // namespace ashlar::symm
