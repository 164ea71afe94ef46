// SPDX-License-Identifier: Apache-2.0
//
// Live bytes by stack at a moment. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "view/document.h"

namespace ashlar::view {

// As columns: the stacks with the most bytes first. REQUIRES: a moment of the document.
std::string stacks_at(const Document& document, uint32_t moment);

}  // namespace ashlar::view
