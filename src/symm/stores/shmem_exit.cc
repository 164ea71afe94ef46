// SPDX-License-Identifier: Apache-2.0
//
// The value is the exit status in decimal digits.
#include "symm/stores/shmem_exit.h"

#include <charconv>
#include <span>
#include <system_error>

namespace ashlar {

std::optional<int> shmem_exit_status(symm::Store& store, const std::string& job,
                                     Deadline deadline) {
  const std::string key = shmem_exit_key(job);
  const auto found = store.try_get(std::span(&key, 1), deadline);
  if (!found.ok() || found->empty() || !found->front()) return std::nullopt;
  const std::string& digits = *found->front();
  int status = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), status);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  return is_number ? status & 0xff : 1;
}

}  // namespace ashlar
