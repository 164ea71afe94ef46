// SPDX-License-Identifier: Apache-2.0
//
// A pool beside the default one: for the memory of a capture, or of a user's choice.
#pragma once

#include <memory>

#include "ashlar/pool.h"
#include "engine/classic/free_pool.h"

namespace ashlar::classic {

// Who holds it, the engine's Routes know. Once freeable, it is gone when it holds no segment any
// more and nobody is allocating from it.
struct PrivatePool {
  PrivatePool(PoolId pool_id, PoolOptions pool_options, UsageStats& usage)
      : id(pool_id),
        options(std::move(pool_options)),
        large(false, this, usage),
        small(true, this, usage) {}

  const PoolId id;
  const PoolOptions options;
  int64_t segment_count = 0;  // of both kinds
  int search_count = 0;       // allocations on their way, which may have unlocked meanwhile
  FreePool large;
  FreePool small;

  bool has_custom_source() const { return options.source != nullptr; }
};

}  // namespace ashlar::classic
