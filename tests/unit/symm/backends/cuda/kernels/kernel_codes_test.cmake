# SPDX-License-Identifier: Apache-2.0
#
# Tests for which architectures nvcc must generate code, given the architectures that it supports.
#
#   cmake -D CODES=cmake/AshlarKernelCodes.cmake \
#     -P tests/unit/symm/backends/cuda/kernels/kernel_codes_test.cmake
cmake_minimum_required(VERSION 3.21)
include(${CODES})

function(expect_codes listed)
  ashlar_kernel_codes("${listed}" found)
  set(wanted)
  foreach(code IN LISTS ARGN)
    list(APPEND wanted -gencode "${code}")
  endforeach()
  if(NOT "${found}" STREQUAL "${wanted}")
    message(SEND_ERROR "of ${listed}: wanted ${wanted}, found ${found}")
  endif()
endfunction()

# PTX is also included for the oldest architecture and for the first one with multicast.
expect_codes("sm_70\nsm_75\nsm_80\nsm_86\nsm_90\nsm_90a\n"
  "arch=compute_70,code=[sm_70,compute_70]" "arch=compute_80,code=sm_80"
  "arch=compute_90,code=[sm_90,compute_90]")
expect_codes("sm_75\nsm_80\nsm_90\nsm_100\nsm_103\nsm_120\n"
  "arch=compute_75,code=[sm_75,compute_75]" "arch=compute_80,code=sm_80"
  "arch=compute_90,code=[sm_90,compute_90]" "arch=compute_100,code=sm_100"
  "arch=compute_120,code=sm_120")
# A compiler without any architecture that has multicast, and one without a supported architecture.
expect_codes("sm_70\nsm_80\n" "arch=compute_70,code=[sm_70,compute_70]"
  "arch=compute_80,code=sm_80")
expect_codes("sm_35\nsm_60\n")
