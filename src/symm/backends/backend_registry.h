// SPDX-License-Identifier: Apache-2.0
//
// The available back ends and the selected one. The selection can change until the back end is
// first used, because a process cannot mix kinds of symmetric memory. Thread safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "symm/backends/backend.h"

namespace ashlar::symm {

class BackendRegistry {
 public:
  // Contains `host`, which is selected initially.
  BackendRegistry();

  // Returns kInvalidArgument if the name is taken.
  Status add(std::unique_ptr<Backend> backend);
  // Returns kInvalidArgument if the name is unknown or another back end is in use.
  Status select(std::string_view name);
  std::string selected_name() const;
  std::vector<std::string> names() const;
  // Returns the selected back end and makes the selection final.
  Backend& activate();

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Backend>, std::less<>> backends_ ASHLAR_GUARDED_BY(mutex_);
  std::string selected_ ASHLAR_GUARDED_BY(mutex_);
  bool is_used_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::symm
