# SPDX-License-Identifier: Apache-2.0
#
# The GPU architectures for which nvcc compiles the kernels.
#
# ashlar_kernel_codes(<listed> <result>)
# `listed`: the output of nvcc --list-gpu-code. `result` is set to nvcc's arguments, or to empty if
# nvcc supports none of the architectures.
#
# Machine code also runs on later GPUs of the same major version, so code for 7.5 is generated only
# by newer compilers, which no longer support 7.0. PTX, for the oldest architecture that the
# compiler supports and for 9.0 (the first with multicast), runs on newer GPUs. The driver selects
# the latest code that fits.
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
