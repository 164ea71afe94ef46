# SPDX-License-Identifier: Apache-2.0
#
# ASHLAR_HARDEN: builds the targets of the including folder with stack protection, checked string
# functions and immediate binding of symbols, and removes the path of the sources from binaries.
# The option is ignored with a sanitizer, which has stronger checks of its own.
if(ASHLAR_HARDEN AND NOT ASHLAR_SANITIZE)
  add_compile_options(-fstack-protector-strong -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  # _FORTIFY_SOURCE needs optimization. It is undefined first, because some compilers define it by
  # default.
  add_compile_options(
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE>
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=2>)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
