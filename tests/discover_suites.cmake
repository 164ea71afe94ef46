# SPDX-License-Identifier: Apache-2.0
#
# Adds one ctest entry for each suite of a test executable. When ctest starts, it includes this file
# once for each executable with the label unit or contract. With one entry for each test, starting
# processes would take longer than testing, ten times as long with a sanitizer. A failing suite
# prints the names of its failed tests. ashlar_add_gpu_suites adds the Gpu/* suites.
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
