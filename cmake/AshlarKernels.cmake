# SPDX-License-Identifier: Apache-2.0
#
# Builds the kernels of symmetric memory on CUDA devices into an image that the library embeds: with
# nvcc, machine code for the GPUs that it supports and PTX for later GPUs; or with clang, PTX only,
# without a CUDA toolkit. The library itself needs neither compiler.
#
# ASHLAR_CUDA_KERNELS  AUTO (nvcc if installed, else clang if it can), nvcc, clang, or OFF
# ashlar_kernel_image  set to the image file, or to empty
# ashlar_ptx_command   set to the clang command that compiles the kernels, if clang can; for tests
set(ASHLAR_CUDA_KERNELS AUTO CACHE STRING
  "Compiler of the kernels for CUDA devices: AUTO, nvcc, clang or OFF")
set_property(CACHE ASHLAR_CUDA_KERNELS PROPERTY STRINGS AUTO nvcc clang OFF)

set(kernel_folder ${PROJECT_SOURCE_DIR}/src/symm/backends/cuda/kernels)
set(kernel_source ${kernel_folder}/kernels.cu)
file(GLOB kernel_depends CONFIGURE_DEPENDS ${kernel_folder}/*)
list(APPEND kernel_depends
  ${PROJECT_SOURCE_DIR}/include/ashlar/symmetric_types.h
  ${PROJECT_SOURCE_DIR}/src/symm/signals/pad_line.h
  ${PROJECT_SOURCE_DIR}/src/symm/collectives/reduce/combine.h
  ${PROJECT_SOURCE_DIR}/src/symm/collectives/reduce/half.h)
set(kernel_includes -I${PROJECT_SOURCE_DIR}/src -I${PROJECT_SOURCE_DIR}/include)

find_program(ASHLAR_NVCC nvcc HINTS /usr/local/cuda/bin)
find_program(ASHLAR_KERNEL_CLANG NAMES clang++ clang++-19 clang++-18 clang++-17 clang++-16
  clang++-15 clang++-14)

# Selects PTX 6.3, which nanosleep needs; clang's default is 6.0.
set(ashlar_ptx_command)
if(ASHLAR_KERNEL_CLANG)
  set(ashlar_ptx_command ${ASHLAR_KERNEL_CLANG} -x cuda -std=c++20 -nocudainc -nocudalib
    --cuda-device-only --cuda-gpu-arch=sm_70 -Xclang -target-feature -Xclang +ptx63
    -Wall -Wextra -Wno-unknown-cuda-version -O2 -ffp-contract=off ${kernel_includes}
    -S ${kernel_source})
  # Checks whether clang can compile for NVIDIA's GPUs, because some builds cannot.
  if(NOT DEFINED ASHLAR_CLANG_HAS_PTX)
    execute_process(
      COMMAND ${ASHLAR_KERNEL_CLANG} --print-targets
      OUTPUT_VARIABLE targets ERROR_QUIET RESULT_VARIABLE failed)
    string(FIND "${targets}" nvptx64 found)
    if(failed OR found EQUAL -1)
      set(found FALSE)
    else()
      set(found TRUE)
    endif()
    set(ASHLAR_CLANG_HAS_PTX ${found} CACHE INTERNAL "clang can compile for NVIDIA's GPUs")
  endif()
  if(NOT ASHLAR_CLANG_HAS_PTX)
    set(ashlar_ptx_command)
  endif()
endif()

set(kernel_codes)
if(ASHLAR_NVCC AND ASHLAR_CUDA_KERNELS MATCHES "^(AUTO|nvcc)$")
  include(AshlarKernelCodes)
  execute_process(COMMAND ${ASHLAR_NVCC} --list-gpu-code OUTPUT_VARIABLE listed ERROR_QUIET)
  ashlar_kernel_codes("${listed}" kernel_codes)
endif()

set(ashlar_kernel_image)
if(kernel_codes)
  set(ashlar_kernel_image ${PROJECT_BINARY_DIR}/kernels/symm_kernels.fatbin)
  set(kernel_command ${ASHLAR_NVCC} -std=c++20 --expt-relaxed-constexpr -fmad=false -t 2
    ${kernel_includes} ${kernel_codes} -fatbin ${kernel_source} -o ${ashlar_kernel_image})
elseif(ashlar_ptx_command AND ASHLAR_CUDA_KERNELS MATCHES "^(AUTO|clang)$")
  set(ashlar_kernel_image ${PROJECT_BINARY_DIR}/kernels/symm_kernels.ptx)
  set(kernel_command ${ashlar_ptx_command} -o ${ashlar_kernel_image})
elseif(ASHLAR_CUDA_KERNELS STREQUAL "OFF")
  message(STATUS "ashlar: the kernels for CUDA devices are left out: ASHLAR_CUDA_KERNELS is OFF")
elseif(NOT ASHLAR_CUDA_KERNELS STREQUAL "AUTO")
  message(FATAL_ERROR "ashlar: ASHLAR_CUDA_KERNELS is ${ASHLAR_CUDA_KERNELS}, which is not here")
else()
  message(STATUS "ashlar: the kernels for CUDA devices are left out: not found: nvcc, or a clang "
    "that compiles for nvptx64. Signals, barriers and collectives of CUDA memory are refused")
endif()

if(ashlar_kernel_image)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/kernels)
  add_custom_command(
    OUTPUT ${ashlar_kernel_image}
    COMMAND ${kernel_command}
    DEPENDS ${kernel_depends}
    COMMENT "Compiling the kernels for CUDA devices"
    VERBATIM)
endif()
