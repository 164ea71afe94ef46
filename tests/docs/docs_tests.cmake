# SPDX-License-Identifier: Apache-2.0
#
# Tests of the code blocks in the documents. snippets.py describes how each language is checked.
set(snippets ${CMAKE_CURRENT_SOURCE_DIR}/docs/snippets.py)
add_test(NAME docs.list COMMAND ${ASHLAR_PYTHON} ${snippets} list)
set_tests_properties(docs.list PROPERTIES LABELS style)
add_test(NAME docs.test_snippets
  COMMAND ${ASHLAR_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/docs/test_snippets.py)
set_tests_properties(docs.test_snippets PROPERTIES LABELS style)

if(NOT ASHLAR_SANITIZE STREQUAL thread)
  file(GLOB_RECURSE documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
  file(GLOB other_documents CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/*.md ${PROJECT_SOURCE_DIR}/*/*.md)
  set(snippet_sources)
  foreach(kind IN ITEMS cpp cpp-not-run c)
    string(REGEX REPLACE "-.*" "" suffix ${kind})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/docs_snippets_${kind}.${suffix})
    add_custom_command(OUTPUT ${source}
      COMMAND ${ASHLAR_PYTHON} ${snippets} ${kind} ${source}
      DEPENDS ${snippets} ${documents} ${other_documents}
      VERBATIM)
    list(APPEND snippet_sources ${source})
  endforeach()
  list(POP_FRONT snippet_sources run_source)
  add_executable(docs_snippets ${run_source})
  add_library(docs_snippets_not_run OBJECT ${snippet_sources})
  foreach(target IN ITEMS docs_snippets docs_snippets_not_run)
    target_link_libraries(${target} PRIVATE ashlar::ashlar)
    target_compile_options(${target} PRIVATE -O0 -Wall -Wextra -Wno-unused -Werror)
  endforeach()
  add_test(NAME docs.cpp COMMAND docs_snippets)
  set_tests_properties(docs.cpp PROPERTIES LABELS install)
endif()

# These tests are not repeated with a sanitizer, which makes replays slow.
if(TARGET ashlar_cli AND NOT ASHLAR_SANITIZE)
  add_test(NAME docs.commands COMMAND ${ASHLAR_PYTHON} ${snippets} sh $<TARGET_FILE:ashlar_cli>)
  set_tests_properties(docs.commands PROPERTIES LABELS cli)
endif()
if(TARGET ashlar_python AND NOT ASHLAR_SANITIZE)
  add_test(NAME docs.python COMMAND ${Python_EXECUTABLE} ${snippets} python)
  set_tests_properties(docs.python PROPERTIES
    LABELS install
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;PYTHONPATH=${PROJECT_BINARY_DIR}/python")
endif()
