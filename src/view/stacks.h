// SPDX-License-Identifier: Apache-2.0
//
// The stacks of a document, and the requested bytes by stack at a moment. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "view/document.h"

namespace ashlar::view {

// Returns stacks.json: all stacks of the recording.
std::string stacks_json(const Document& document);

// Returns the requested bytes by stack as columns, largest first, including pending frees, and the
// same bytes by stack and category. At document.reserved_peak(), the bytes equal those that `ashlar
// report` prints.
// REQUIRES: moment < document.entry_count().
std::string stack_columns(const Document& document, uint32_t moment);

}  // namespace ashlar::view
