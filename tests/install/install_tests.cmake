# SPDX-License-Identifier: Apache-2.0
#
# Uses Ashlar from another project in the three ways people do: installed, as a sub-directory, and
# as a shared library. All of it stays below the build folder. The library is built just once more:
# the one that is a sub-directory is shared, unoptimized, compiled several sources in one go, and
# also the one to be installed as such.
set(consumer_source ${CMAKE_CURRENT_SOURCE_DIR}/install)
set(consumer_binary ${CMAKE_CURRENT_BINARY_DIR}/install)

# ashlar_add_consumer(<name> <cmake option>...): configure, build, run.
function(ashlar_add_consumer name)
  add_test(NAME install.${name}
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${consumer_source} ${consumer_binary}/${name}
      --build-generator ${CMAKE_GENERATOR}
      --build-options
        -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
        -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
        ${ARGN}
      --test-command ${consumer_binary}/${name}/consumer)
  set_tests_properties(install.${name} PROPERTIES LABELS install TIMEOUT 600)
endfunction()

# ashlar_add_install(<name> <build folder>): installs to where the package is looked for by <name>.
function(ashlar_add_install name build_folder)
  add_test(NAME install.for_${name}
    COMMAND ${CMAKE_COMMAND} --install ${build_folder} --prefix ${consumer_binary}/${name}_prefix)
  set_tests_properties(install.for_${name} PROPERTIES LABELS install FIXTURES_SETUP ${name})
  set_tests_properties(install.${name} PROPERTIES FIXTURES_REQUIRED ${name})
endfunction()

ashlar_add_consumer(find_package -DCMAKE_PREFIX_PATH=${consumer_binary}/find_package_prefix)
ashlar_add_install(find_package ${PROJECT_BINARY_DIR})

ashlar_add_consumer(add_subdirectory
  -DASHLAR_SOURCE_DIR=${PROJECT_SOURCE_DIR} -DASHLAR_INSTALL=ON -DBUILD_SHARED_LIBS=ON
  -DCMAKE_UNITY_BUILD=ON)

ashlar_add_consumer(shared -DCMAKE_PREFIX_PATH=${consumer_binary}/shared_prefix)
ashlar_add_install(shared ${consumer_binary}/add_subdirectory)
set_tests_properties(install.add_subdirectory PROPERTIES FIXTURES_SETUP shared_library)
set_tests_properties(install.for_shared PROPERTIES FIXTURES_REQUIRED shared_library)

# What the shared library shows is what a list says that it does.
add_test(NAME install.exported_symbols
  COMMAND ${ASHLAR_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/c/exported_symbols.py
    ${consumer_binary}/add_subdirectory/ashlar/src/libashlar.so
    ${CMAKE_CURRENT_SOURCE_DIR}/c/symbols.txt)
set_tests_properties(install.exported_symbols PROPERTIES
  LABELS install FIXTURES_REQUIRED shared_library)
