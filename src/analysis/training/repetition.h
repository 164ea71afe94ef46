// SPDX-License-Identifier: Apache-2.0
//
// Finds a loop in a sequence of tokens: the positions at which each iteration begins. Pure
// function.
#pragma once

#include <cstdint>
#include <vector>

namespace ashlar {

// A token at a position, both chosen by the caller. Equal tokens stand for the same operation.
struct TokenAt {
  uint64_t token = 0;
  uint32_t position = 0;
};

// Returns the positions of the first token of each iteration, in order; empty if the sequence has
// no loop of at least three iterations. A loop consists of tokens that occur once per iteration, in
// an order that does not change; other tokens may occur in between. If loops are nested, returns
// the one with the most such tokens.
// REQUIRES: positions increase.
std::vector<uint32_t> find_repetition(const std::vector<TokenAt>& tokens);

}  // namespace ashlar
