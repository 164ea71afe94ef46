// SPDX-License-Identifier: Apache-2.0
//
// The back ends that there are, and the one in use. One can be chosen as often as anyone likes
// until it is first used: memory of two kinds would not meet. Thread safe.
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
  // With `host`, which is chosen until another is.
  BackendRegistry();

  // kInvalidArgument: there is one of that name.
  Status add(std::unique_ptr<Backend> backend);
  // kInvalidArgument: there is none of that name, or another has been used.
  Status select(std::string_view name);
  std::string selected_name() const;
  std::vector<std::string> names() const;
  // The one that is chosen, for good.
  Backend& activate();

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Backend>, std::less<>> backends_ ASHLAR_GUARDED_BY(mutex_);
  std::string selected_ ASHLAR_GUARDED_BY(mutex_);
  bool is_used_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::symm
