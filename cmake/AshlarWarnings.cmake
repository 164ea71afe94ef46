# SPDX-License-Identifier: Apache-2.0
#
# The warnings our own code is free of, as a target to link: ashlar_warnings. Never handed on to
# those who use the library.
add_library(ashlar_warnings INTERFACE)
target_compile_options(ashlar_warnings INTERFACE
  -Wall
  -Wextra
  -Wpedantic
  -Wconversion
  -Wno-sign-conversion  # part of the above for clang only, and more noise than news
  -Wextra-semi
  -Wnon-virtual-dtor
  -Wold-style-cast
  -Woverloaded-virtual
  -Wshadow
  -Wundef
  $<$<BOOL:${ASHLAR_WERROR}>:-Werror>
  # The rules that base/mutex.h lets us write down are worth more than a warning.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Werror=thread-safety>)
