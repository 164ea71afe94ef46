# SPDX-License-Identifier: Apache-2.0
#
# ASHLAR_SANITIZE=address,undefined or thread: for every target of this build, since sanitized and
# plain code do not mix. What a sanitizer finds ends the program, so that no test overlooks it.
if(ASHLAR_SANITIZE)
  add_compile_options(
    -fsanitize=${ASHLAR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ASHLAR_SANITIZE})
endif()
