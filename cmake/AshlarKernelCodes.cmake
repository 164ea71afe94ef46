# SPDX-License-Identifier: Apache-2.0
#
# Which code nvcc makes of the kernels: for whom, and in which form.
#
# ashlar_kernel_codes(<listed> <result>)
# `listed`: what nvcc --list-gpu-code says. `result` is set to nvcc's arguments, or to nothing.
#
# Machine code runs on later GPUs of the same major number; newer compilers know no more of the
# oldest. PTX serves GPUs that come after: of the oldest that this compiler knows, for all, and of
# 9.0, the first with multicast, which has kernels for it. A driver takes the latest that fits.
function(ashlar_kernel_codes listed result)
  set(codes)
  foreach(arch IN ITEMS 70 75 80 90 100 120)
    if(NOT listed MATCHES "sm_${arch}([^0-9]|$)")
      continue()
    endif()
    if(NOT codes OR arch EQUAL 90)
      list(APPEND codes -gencode arch=compute_${arch},code=[sm_${arch},compute_${arch}])
    elseif(NOT arch EQUAL 75)
      list(APPEND codes -gencode arch=compute_${arch},code=sm_${arch})
    endif()
  endforeach()
  set(${result} "${codes}" PARENT_SCOPE)
endfunction()
