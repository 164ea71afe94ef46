# SPDX-License-Identifier: Apache-2.0
#
# Run by ctest when it starts, for each executable of cheap tests: one test for each suite. One for
# each test would take more time for starting processes than for testing, with a sanitizer ten times
# as much. A suite that fails prints which of its tests did. Those on a GPU are left to
# ashlar_add_gpu_suites.
#
# REQUIRES: executable, label.
if(NOT EXISTS "${executable}")
  add_test("${executable}_NOT_BUILT" "${executable}")
  return()
endif()
execute_process(COMMAND "${executable}" --gtest_list_tests --gtest_filter=-Gpu/*
  OUTPUT_VARIABLE listed RESULT_VARIABLE outcome)
if(NOT outcome EQUAL 0)
  message(FATAL_ERROR "${executable} --gtest_list_tests failed: ${outcome}. Run it to see why")
endif()

# Suites are what is not indented: their name, a dot, and a comment where they have parameters.
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
  # Many tests, hence more time than the preset gives to each.
  set_tests_properties(${suite} PROPERTIES LABELS ${suite_label} TIMEOUT 300)
endforeach()
