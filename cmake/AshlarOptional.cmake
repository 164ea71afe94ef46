# SPDX-License-Identifier: Apache-2.0
#
# ashlar_find_packages(<package>...): finds these packages and those that src/files needs, and
# appends the missing ones to `missing`. It is a macro because packages set variables that the
# caller uses.
macro(ashlar_find_packages)
  foreach(package IN ITEMS ${ARGN} LibLZMA PkgConfig ZLIB nlohmann_json)
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      list(APPEND missing ${package})
    endif()
  endforeach()
  if(PkgConfig_FOUND)
    pkg_check_modules(ZSTD QUIET libzstd)
    if(NOT ZSTD_FOUND)
      list(APPEND missing libzstd)
    endif()
  endif()
endmacro()

# ASHLAR_BUILD_TESTS=AUTO: builds the tests if everything they need is found, and otherwise skips
# them with a message. ON fails instead.
if(ASHLAR_BUILD_TESTS STREQUAL "AUTO")
  set(missing)
  ashlar_find_packages(GTest)
  set(ASHLAR_BUILD_TESTS ON)
  if(missing)
    list(JOIN missing ", " missing)
    message(STATUS "ashlar: the tests are left out: not found: ${missing}")
    set(ASHLAR_BUILD_TESTS OFF)
  endif()
endif()

# ASHLAR_BUILD_PYTHON: builds the extension module of the Python package if everything that the
# module needs is found, and otherwise skips it with a message; with ASHLAR_REQUIRE_PYTHON,
# configuring fails instead.
if(ASHLAR_BUILD_PYTHON)
  if(NOT Python_EXECUTABLE)
    # HINTS precede PATH: finds the system's Python, for which scripts/setup installs modules.
    find_program(ASHLAR_PYTHON python3 HINTS /usr/bin)
    set(Python_EXECUTABLE ${ASHLAR_PYTHON})
  endif()
  set(PYBIND11_FINDPYTHON ON)
  set(missing)
  find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module)
  if(NOT Python_FOUND)
    list(APPEND missing "Python's headers (python3-dev)")
  else()
    find_package(pybind11 2.10 CONFIG QUIET)
    if(NOT pybind11_FOUND)
      list(APPEND missing "pybind11 (pybind11-dev)")
    endif()
  endif()
  ashlar_find_packages(fmt)
  if(missing)
    list(JOIN missing ", " missing)
    if(ASHLAR_REQUIRE_PYTHON)
      message(FATAL_ERROR "ashlar: the Python package cannot be built: not found: ${missing}")
    endif()
    message(STATUS "ashlar: the Python package is left out, but for ashlar.torch: "
      "not found: ${missing}")
    set(ASHLAR_BUILD_PYTHON OFF)
  endif()
endif()
