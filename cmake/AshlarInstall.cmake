# SPDX-License-Identifier: Apache-2.0
#
# Installs the library (and ashlar::redis, ashlar::ucx and ashlar::shmem, if they were built), its
# headers, a package config for find_package(ashlar), a pkg-config file, the tool, the plug-in for
# PyTorch, and the Python package. Programs and shared libraries are stripped.
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
  install(TARGETS ashlar_shmem EXPORT ashlar-targets FILE_SET HEADERS)
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

# Writes the pkg-config file. The static library also needs the C++ runtime, threads and the loader.
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
# The file is written at install time, because the prefix is not known earlier.
install(CODE "
  set(PROJECT_DESCRIPTION [[${PROJECT_DESCRIPTION}]])
  set(PROJECT_VERSION ${PROJECT_VERSION})
  set(ASHLAR_PC_LIBDIR [[\${prefix}/${CMAKE_INSTALL_LIBDIR}]])
  set(ASHLAR_PC_INCLUDEDIR [[\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}]])
  set(ASHLAR_PC_LIBS [[${ASHLAR_PC_LIBS}]])
  configure_file([[${CMAKE_CURRENT_LIST_DIR}/ashlar.pc.in]]
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig/ashlar.pc\" @ONLY)")

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
  install(FILES ${ASHLAR_PYTHON_FILES}
    DESTINATION ${ASHLAR_PYTHON_SITE}/ashlar COMPONENT python)
endif()
if(TARGET ashlar_python)
  install(TARGETS ashlar_python
    LIBRARY DESTINATION ${ASHLAR_PYTHON_SITE}/ashlar COMPONENT python)
endif()
