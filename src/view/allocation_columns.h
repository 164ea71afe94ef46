// SPDX-License-Identifier: Apache-2.0
//
// The columns that describe allocations, shared by several responses. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "view/columns.h"
#include "view/document.h"

namespace ashlar::view {

// Adds `id`, `bytes`, `made`, `freed`, `stack`, `stream`, `pool` and `category`, with one row per
// id.
void add_allocations(const Document& document, const std::vector<uint32_t>& ids, Columns& response);
// Adds `made_us`, `freed_us` and `address`.
void add_allocation_details(const Document& document, const std::vector<uint32_t>& ids,
                            Columns& response);

}  // namespace ashlar::view
