# SPDX-License-Identifier: Apache-2.0
#
# Installs the library (and ashlar::redis, ashlar::ucx and ashlar::shmem, if they were built), its
# headers, a package config for find_package(ashlar), pkg-config files, the compiler wrappers for
# OpenSHMEM, the tool, the plug-in for PyTorch, and the Python package. Programs and shared
# libraries are stripped.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)" ALL_COMPONENTS)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ashlar)

install(TARGETS ashlar EXPORT ashlar-targets FILE_SET HEADERS)
if(TARGET ashlar_redis)
  install(TARGETS ashlar_redis EXPORT ashlar-targets FILE_SET HEADERS)
endif()
if(TARGET ashlar_ucx)
  install(TARGETS ashlar_ucx EXPORT ashlar-targets FILE_SET HEADERS)
endif()
if(TARGET ashlar_shmem)
  # If the core is a shared library too, the loader finds it in the folder of this library.
  set_target_properties(ashlar_shmem PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS ashlar_shmem EXPORT ashlar-targets FILE_SET HEADERS)
  # Compiler wrappers: command, variable that selects the compiler, default compiler.
  foreach(row IN ITEMS "oshcc OSHCC cc" "oshc++ OSHCXX c++")
    string(REPLACE " " ";" row ${row})
    list(GET row 0 wrapper)
    list(GET row 1 ASHLAR_WRAPPER_VARIABLE)
    list(GET row 2 ASHLAR_WRAPPER_COMPILER)
    configure_file(cmake/oshcc.in ${CMAKE_CURRENT_BINARY_DIR}/bin/${wrapper} @ONLY)
    install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/bin/${wrapper}
      DESTINATION ${CMAKE_INSTALL_BINDIR})
  endforeach()
  if(TARGET ashlar_cli)
    install(PROGRAMS cmake/oshrun DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endif()
install(EXPORT ashlar-targets NAMESPACE ashlar:: DESTINATION ${package_dir})

get_target_property(ASHLAR_LIBRARY_TYPE ashlar TYPE)
configure_package_config_file(
  cmake/ashlar-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0, a minor version may break the API.
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config-version.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config-version.cmake
  DESTINATION ${package_dir})

# The pkg-config files. A static library also needs the C++ runtime, threads and the loader.
set(ASHLAR_PC_PRIVATE -lstdc++ -lm ${CMAKE_THREAD_LIBS_INIT})
foreach(library IN LISTS CMAKE_DL_LIBS)
  list(APPEND ASHLAR_PC_PRIVATE -l${library})
endforeach()
list(JOIN ASHLAR_PC_PRIVATE " " ASHLAR_PC_PRIVATE)
if(ASHLAR_LIBRARY_TYPE STREQUAL "STATIC_LIBRARY")
  set(ASHLAR_PC_LIBS "Libs: -L\${libdir} -lashlar ${ASHLAR_PC_PRIVATE}")
else()
  set(ASHLAR_PC_LIBS "Libs: -L\${libdir} -lashlar")
endif()
# The files are written at install time, because the prefix is not known earlier.
set(ASHLAR_PC_FILES ashlar)
if(TARGET ashlar_shmem)
  list(APPEND ASHLAR_PC_FILES ashlar-shmem)
endif()
install(CODE "
  set(PROJECT_DESCRIPTION [[${PROJECT_DESCRIPTION}]])
  set(PROJECT_VERSION ${PROJECT_VERSION})
  set(ASHLAR_PC_LIBDIR [[\${prefix}/${CMAKE_INSTALL_LIBDIR}]])
  set(ASHLAR_PC_INCLUDEDIR [[\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}]])
  set(ASHLAR_PC_LIBS [[${ASHLAR_PC_LIBS}]])
  set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\")
  foreach(file IN ITEMS ${ASHLAR_PC_FILES})
    configure_file(\"${CMAKE_CURRENT_LIST_DIR}/\${file}.pc.in\" \"\${folder}/\${file}.pc\" @ONLY)
  endforeach()")

if(TARGET ashlar_cli)
  install(TARGETS ashlar_cli)
endif()
if(TARGET ashlar_cli_share)
  set(share ${PROJECT_BINARY_DIR}/share)
  install(FILES ${share}/man1/ashlar.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  install(FILES ${share}/completion/ashlar
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
  install(FILES ${share}/completion/_ashlar
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
  install(FILES ${share}/completion/ashlar.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
endif()

# Component python: `cmake --install build/release --component python` installs only the files
# below.
if(TARGET ashlar_torch)
  install(TARGETS ashlar_torch LIBRARY COMPONENT python)
endif()
if(TARGET ashlar_torch OR TARGET ashlar_python)
  foreach(file IN LISTS ASHLAR_PYTHON_FILES)
    get_filename_component(folder ${file} DIRECTORY)
    string(REGEX REPLACE "^python/" "" folder ${folder})
    install(FILES ${file} DESTINATION ${ASHLAR_PYTHON_SITE}/${folder} COMPONENT python)
  endforeach()
  # The sources that ashlar.torch compiles against the installed PyTorch.
  set(native_sources ${ASHLAR_PYTHON_SITE}/ashlar/native_sources)
  install(DIRECTORY src/api/torch/native
    DESTINATION ${native_sources}/src/api/torch COMPONENT python
    FILES_MATCHING PATTERN "*.cc" PATTERN "*.h")
  install(FILES src/api/torch/torch_bridge.h
    DESTINATION ${native_sources}/src/api/torch COMPONENT python)
  install(DIRECTORY include/ashlar
    DESTINATION ${native_sources}/include COMPONENT python FILES_MATCHING PATTERN "*.h")
endif()
if(TARGET ashlar_python)
  install(TARGETS ashlar_python
    LIBRARY DESTINATION ${ASHLAR_PYTHON_SITE}/ashlar COMPONENT python)
endif()
