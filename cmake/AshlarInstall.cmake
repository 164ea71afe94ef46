# SPDX-License-Identifier: Apache-2.0
#
# Installs the library (with ashlar::redis, ashlar::ucx and ashlar::shmem, if they were built), its
# headers, a package config for find_package(ashlar), the tool, the plug-in for PyTorch, and the
# Python package.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

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

configure_package_config_file(
  cmake/ashlar-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config-version.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/ashlar-config-version.cmake
  DESTINATION ${package_dir})

if(TARGET ashlar_cli)
  install(TARGETS ashlar_cli)
endif()

# Component python: `cmake --install build/release --component python` installs only these.
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
