# SPDX-License-Identifier: Apache-2.0
#
# Uses Ashlar from another project: installed, as a subdirectory, as a shared library, from C alone,
# and with pkg-config. All output stays below the build folder. To save time, only the test
# add_subdirectory builds the library again, as a shared, unoptimized unity build. The test of the
# shared library installs that build.
#
# The tests build with clang where it is installed, because without optimization clang takes half of
# the time that gcc takes.
find_program(ASHLAR_CLANG clang)
find_program(ASHLAR_CLANGXX clang++)
if(ASHLAR_CLANG AND ASHLAR_CLANGXX)
  set(consumer_compilers
    -DCMAKE_C_COMPILER=${ASHLAR_CLANG} -DCMAKE_CXX_COMPILER=${ASHLAR_CLANGXX})
else()
  set(consumer_compilers
    -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER})
endif()

set(consumer_source ${CMAKE_CURRENT_SOURCE_DIR}/install)
set(consumer_binary ${CMAKE_CURRENT_BINARY_DIR}/install)

# ashlar_add_consumer(<name> <cmake option>...): configures, builds and runs the consumer.
function(ashlar_add_consumer name)
  add_test(NAME install.${name}
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${consumer_source} ${consumer_binary}/${name}
      --build-generator ${CMAKE_GENERATOR}
      --build-options
        -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
        ${ARGN}
      --test-command ${consumer_binary}/${name}/consumer)
  set_tests_properties(install.${name} PROPERTIES LABELS install TIMEOUT 1800)
endfunction()

# ashlar_add_install(<name> <build folder>): installs the package that the consumer <name> uses.
function(ashlar_add_install name build_folder)
  add_test(NAME install.for_${name}
    COMMAND ${CMAKE_COMMAND} --install ${build_folder} --prefix ${consumer_binary}/${name}_prefix)
  set_tests_properties(install.for_${name} PROPERTIES LABELS install FIXTURES_SETUP ${name})
  set_tests_properties(install.${name} PROPERTIES FIXTURES_REQUIRED ${name})
endfunction()

# Builds the consumer of the installed package with the compilers of this build, as a user would.
ashlar_add_consumer(find_package
  -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
  -DCMAKE_PREFIX_PATH=${consumer_binary}/find_package_prefix)
ashlar_add_install(find_package ${PROJECT_BINARY_DIR})

ashlar_add_consumer(add_subdirectory ${consumer_compilers}
  -DASHLAR_SOURCE_DIR=${PROJECT_SOURCE_DIR} -DASHLAR_INSTALL=ON -DBUILD_SHARED_LIBS=ON
  -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=64 -DASHLAR_CUDA_KERNELS=OFF)

ashlar_add_consumer(shared ${consumer_compilers}
  -DCMAKE_PREFIX_PATH=${consumer_binary}/shared_prefix)
ashlar_add_install(shared ${consumer_binary}/add_subdirectory)
set_tests_properties(install.add_subdirectory PROPERTIES
  FIXTURES_SETUP shared_library COST ${ashlar_slow_test_cost})
set_tests_properties(install.for_shared PROPERTIES FIXTURES_REQUIRED shared_library)

# A project that enables only C links the C++ runtime through the package config.
if(NOT ASHLAR_SANITIZE)
  add_test(NAME install.c_only
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${consumer_source}/c_only ${consumer_binary}/c_only
      --build-generator ${CMAKE_GENERATOR}
      --build-options
        -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM}
        -DCMAKE_PREFIX_PATH=${consumer_binary}/find_package_prefix
      --test-command ${consumer_binary}/c_only/consumer)
  set_tests_properties(install.c_only PROPERTIES LABELS install FIXTURES_REQUIRED find_package)
endif()

# The compiler wrapper and the launcher of OpenSHMEM.
if(TARGET ashlar_shmem AND TARGET ashlar_cli AND NOT ASHLAR_SANITIZE)
  set(bin ${consumer_binary}/find_package_prefix/${CMAKE_INSTALL_BINDIR})
  add_test(NAME install.oshcc
    COMMAND sh -c "${bin}/oshcc -c ${consumer_source}/shmem_consumer.c -o oshcc_consumer.o && \
      ${bin}/oshcc oshcc_consumer.o -o oshcc_consumer && ${bin}/oshrun -np 2 ./oshcc_consumer && \
      ${bin}/oshc++ -x c++ ${consumer_source}/shmem_consumer.c -o oshcxx_consumer && \
      ./oshcxx_consumer && ${bin}/oshcc --showme:link | grep -e -lashlar_shmem")
  set_tests_properties(install.oshcc PROPERTIES
    LABELS install FIXTURES_REQUIRED find_package WORKING_DIRECTORY ${consumer_binary})
endif()

find_program(ASHLAR_PKG_CONFIG pkg-config)
if(ASHLAR_PKG_CONFIG AND NOT ASHLAR_SANITIZE)
  add_test(NAME install.pkg_config
    COMMAND sh -c "${CMAKE_C_COMPILER} ${consumer_source}/c_consumer.c -o pkg_config_consumer \
      $(${ASHLAR_PKG_CONFIG} --cflags --libs ashlar) && ./pkg_config_consumer")
  set_tests_properties(install.pkg_config PROPERTIES
    LABELS install FIXTURES_REQUIRED find_package WORKING_DIRECTORY ${consumer_binary}
    ENVIRONMENT
      PKG_CONFIG_PATH=${consumer_binary}/find_package_prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  if(TARGET ashlar_shmem)
    set(library_folder ${consumer_binary}/find_package_prefix/${CMAKE_INSTALL_LIBDIR})
    add_test(NAME install.pkg_config_shmem
      COMMAND sh -c "${CMAKE_C_COMPILER} ${consumer_source}/shmem_consumer.c -o pkg_config_shmem \
        $(${ASHLAR_PKG_CONFIG} --cflags --libs ashlar-shmem) && ./pkg_config_shmem")
    set_tests_properties(install.pkg_config_shmem PROPERTIES
      LABELS install FIXTURES_REQUIRED find_package WORKING_DIRECTORY ${consumer_binary}
      ENVIRONMENT "PKG_CONFIG_PATH=${library_folder}/pkgconfig;LD_LIBRARY_PATH=${library_folder}")
  endif()
endif()

# The shared library must export exactly the symbols on a list.
add_test(NAME install.exported_symbols
  COMMAND ${ASHLAR_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/c/exported_symbols.py
    ${consumer_binary}/add_subdirectory/ashlar/src/libashlar.so
    ${CMAKE_CURRENT_SOURCE_DIR}/c/symbols.txt)
set_tests_properties(install.exported_symbols PROPERTIES
  LABELS install FIXTURES_REQUIRED shared_library)

# The installed binaries are stripped and hardened, and do not contain the path of the sources.
if(ASHLAR_HARDEN)
  add_test(NAME install.hardened_binaries
    COMMAND ${ASHLAR_PYTHON} ${consumer_source}/check_binaries.py
      ${consumer_binary}/find_package_prefix ${PROJECT_SOURCE_DIR})
  set_tests_properties(install.hardened_binaries PROPERTIES
    LABELS install FIXTURES_REQUIRED find_package)
endif()
