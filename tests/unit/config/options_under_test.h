// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests of allocator options.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "config/allocator_options.h"

namespace ashlar {

inline AllocatorOptions parse(std::string_view text, const AllocatorOptions& base = {}) {
  const Result<AllocatorOptions> options = parse_allocator_options(text, base);
  EXPECT_TRUE(options.ok()) << text << "\n" << options.status().to_string();
  return options.ok() ? *options : AllocatorOptions();
}

// Parses invalid text. Returns the message of the expected kInvalidArgument.
inline std::string error_for(std::string_view text, const AllocatorOptions& base = {}) {
  const Result<AllocatorOptions> options = parse_allocator_options(text, base);
  EXPECT_FALSE(options.ok()) << text;
  EXPECT_EQ(options.status().kind(), StatusKind::kInvalidArgument);
  return options.status().message();
}

}  // namespace ashlar
