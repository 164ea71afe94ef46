# SPDX-License-Identifier: Apache-2.0
#
# Defines the target ashlar_warnings, which enables compiler warnings for the project's own code.
# They are not propagated to users of the library.
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
