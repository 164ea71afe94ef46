// SPDX-License-Identifier: Apache-2.0
//
// Options as text, for programs.
#include "ashlar/options.h"

#include "api/unwrap.h"
#include "config/allocator_options.h"
#include "config/environment.h"

namespace ashlar {

AllocatorOptions parse_options(std::string_view text, const AllocatorOptions& base) {
  return unwrap(parse_allocator_options(text, base));
}

std::string format_options(const AllocatorOptions& options) {
  return format_allocator_options(options);
}

AllocatorOptions options_from_environment() {
  return unwrap(allocator_options_from(Environment::of_process()));
}

}  // namespace ashlar
