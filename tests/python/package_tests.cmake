# SPDX-License-Identifier: Apache-2.0
#
# The pytest files of the Python package, and the example of its guide. They are skipped if pytest
# or numpy is not installed.
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import numpy, pytest"
  RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  message(STATUS "ashlar: the tests of the Python package are left out: not found: "
    "pytest or numpy (python3-pytest, python3-numpy)")
  return()
endif()

set(environment
  PYTHONDONTWRITEBYTECODE=1
  PYTHONPATH=${PROJECT_BINARY_DIR}/python
  TEST_BUILD_FOLDER=${PROJECT_BINARY_DIR})
if(TARGET ashlar_cli)
  list(APPEND environment TEST_CLI=$<TARGET_FILE:ashlar_cli>)
endif()
# Python is not built with the sanitizer, so the sanitizer's library must be preloaded. Python does
# not free all memory at exit, so leaks are not reported.
if(ASHLAR_SANITIZE MATCHES address)
  set(runtime libasan.so)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    set(runtime libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
  endif()
  execute_process(
    COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${runtime}
    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND environment
    LD_PRELOAD=${runtime} ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1)
endif()

set(names
  adapters allocator cuda display ending forks history host_memory interrupts package pools
  recording references stubs threads views)
if(NOT ASHLAR_SANITIZE)  # checks type annotations with mypy and runs no code of the library
  list(APPEND names types)
endif()
foreach(name IN LISTS names)
  add_test(NAME python.${name}
    COMMAND ${Python_EXECUTABLE} -m pytest -q -p no:cacheprovider
      ${CMAKE_CURRENT_SOURCE_DIR}/python/package/test_${name}.py)
  set_tests_properties(python.${name} PROPERTIES
    LABELS unit ENVIRONMENT "${environment}")
endforeach()
if(TARGET ashlar_torch)
  add_test(NAME python.symm
    COMMAND ${Python_EXECUTABLE} -m pytest -q -p no:cacheprovider
      ${CMAKE_CURRENT_SOURCE_DIR}/python/package/test_symm.py)
  set_tests_properties(python.symm PROPERTIES
    LABELS unit
    ENVIRONMENT "${environment};ASHLAR_TORCH_LIBRARY=$<TARGET_FILE:ashlar_torch>")
  set_property(TEST python.symm APPEND PROPERTY
    ENVIRONMENT ASHLAR_CUDA_DRIVER=$<TARGET_FILE:standin_cuda>)
endif()
if(NOT ASHLAR_SANITIZE)
  set_property(TEST python.types PROPERTY SKIP_REGULAR_EXPRESSION "1 skipped")  # without mypy
endif()
set_property(TEST python.forks PROPERTY COST ${ashlar_slow_test_cost})
set_property(TEST python.cuda python.host_memory APPEND PROPERTY
  ENVIRONMENT ASHLAR_CUDA_DRIVER=$<TARGET_FILE:standin_cuda>)

add_test(NAME example.python
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/examples/python_quick_start.py)
set_tests_properties(example.python PROPERTIES
  LABELS install
  ENVIRONMENT "${environment}"
  PASS_REGULAR_EXPRESSION "ok: 4.00 MiB requested at the peak, 2 stacks")

# Without pybind11, CMake still configures everything else, and a message says what is missing.
if(NOT ASHLAR_SANITIZE)
  add_test(NAME python.left_out_without_pybind11
    COMMAND ${CMAKE_COMMAND} -S ${PROJECT_SOURCE_DIR}
      -B ${CMAKE_CURRENT_BINARY_DIR}/without_pybind11
      -G ${CMAKE_GENERATOR} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
      -DCMAKE_DISABLE_FIND_PACKAGE_pybind11=ON -DASHLAR_BUILD_TESTS=OFF)
  set_tests_properties(python.left_out_without_pybind11 PROPERTIES
    LABELS install
    PASS_REGULAR_EXPRESSION
      "Python package is left out, but for ashlar.torch: not found: pybind11.*Generating done")
endif()

# Makes a wheel of the source tree with pip, offline and with this build's binaries, and installs
# it. The test is not repeated with sanitizers.
if(NOT ASHLAR_SANITIZE)
  add_test(NAME install.pip
    COMMAND ${CMAKE_COMMAND}
      -DPYTHON=${Python_EXECUTABLE} -DSOURCE=${PROJECT_SOURCE_DIR}
      -DBUILD=${PROJECT_BINARY_DIR} -DFOLDER=${CMAKE_CURRENT_BINARY_DIR}/pip
      -P ${CMAKE_CURRENT_SOURCE_DIR}/python/install_with_pip.cmake)
  set_tests_properties(install.pip PROPERTIES
    LABELS install TIMEOUT 1800 COST ${ashlar_slow_test_cost}
    SKIP_REGULAR_EXPRESSION "left out: not found"
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
endif()
