# SPDX-License-Identifier: Apache-2.0
#
# ASHLAR_SANITIZE=address,undefined or thread: builds every target with these sanitizers, because
# sanitized and plain code must not be mixed. A finding ends the program, so that the test fails.
if(ASHLAR_SANITIZE)
  add_compile_options(
    -fsanitize=${ASHLAR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ASHLAR_SANITIZE})
endif()
