# SPDX-License-Identifier: Apache-2.0
#
# ASHLAR_HARDEN: for the targets of the including folder, stack protection, checked string functions
# and immediate binding of symbols, and no paths of the build machine in binaries. Sanitizers have
# stronger checks of their own.
if(ASHLAR_HARDEN AND NOT ASHLAR_SANITIZE)
  add_compile_options(-fstack-protector-strong -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
  # Needs optimization. Undefined first, because some compilers define it by default.
  add_compile_options(
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE>
    $<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-D_FORTIFY_SOURCE=2>)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
