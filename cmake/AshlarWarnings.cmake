# SPDX-License-Identifier: Apache-2.0
#
# ashlar_warnings, a target with the warnings that the project is free of. They are not propagated
# to users of the library.
add_library(ashlar_warnings INTERFACE)
target_compile_options(ashlar_warnings INTERFACE
  -Wall
  -Wextra
  -Wpedantic
  -Wconversion
  -Wno-sign-conversion  # only clang's -Wconversion includes it; mostly false alarms
  -Wextra-semi
  -Wnon-virtual-dtor
  -Wold-style-cast
  -Woverloaded-virtual
  -Wshadow
  -Wundef
  $<$<BOOL:${ASHLAR_WERROR}>:-Werror>
  # Violations of the lock annotations of base/mutex.h are errors.
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Werror=thread-safety>)
