# SPDX-License-Identifier: Apache-2.0
#
# ASHLAR_SANITIZE=address,undefined or thread: for every target of the build, because sanitized and
# plain code do not mix. A finding ends the program, so that the test fails.
if(ASHLAR_SANITIZE)
  add_compile_options(
    -fsanitize=${ASHLAR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ASHLAR_SANITIZE})
endif()
