// SPDX-License-Identifier: Apache-2.0
//
// The columns that tell of allocations, wherever they stand. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "view/columns.h"
#include "view/document.h"

namespace ashlar::view {

// `id`, `bytes`, `made`, `freed`, `stack`, `stream`, `pool`, by row.
void add_allocations(const Document& document, const std::vector<uint32_t>& ids, Columns& answer);
// And `made_us`, `freed_us`, `address`.
void add_allocation_details(const Document& document, const std::vector<uint32_t>& ids,
                            Columns& answer);

}  // namespace ashlar::view
