# SPDX-License-Identifier: Apache-2.0
#
# Adds one ctest entry for each suite of a test executable. When ctest starts, it includes this file
# once for each executable with the label unit or contract. There is no entry for each test, because
# starting one process per test would take longer than the tests themselves. A failing suite prints
# the names of its failed tests. ashlar_add_gpu_suites adds the Gpu/* suites.
#
# REQUIRES: the variables `executable` (a path) and `label` are set.
if(NOT EXISTS "${executable}")
  add_test("${executable}_NOT_BUILT" "${executable}")
  return()
endif()
execute_process(COMMAND "${executable}" --gtest_list_tests --gtest_filter=-Gpu/*
  OUTPUT_VARIABLE listed RESULT_VARIABLE outcome)
if(NOT outcome EQUAL 0)
  message(FATAL_ERROR "${executable} --gtest_list_tests failed: ${outcome}. Run it to see why")
endif()

# Lines without indentation are suites: the name, a dot, and for typed suites a comment.
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listed}")
if(NOT suites)
  message(FATAL_ERROR "${executable} --gtest_list_tests names no suite. Has it lost its tests?")
endif()
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  string(REGEX REPLACE "\\.$" "" suite "${suite}")
  add_test(${suite} "${executable}" --gtest_filter=${suite}.*)
  set(suite_label ${label})
  if(suite MATCHES "Concurrency")
    set(suite_label ${label}-concurrency)
  endif()
  set_tests_properties(${suite} PROPERTIES LABELS ${suite_label})
endforeach()
