# SPDX-License-Identifier: Apache-2.0
#
# Installs the Python package with pip into a virtual environment, as the guide describes, and
# uses it. Calls the system's pip, because Debian packages it separately from venv.
#   cmake -DPYTHON=... -DSOURCE=... -DFOLDER=... -P install_with_pip.cmake
execute_process(
  COMMAND ${PYTHON} -c "import setuptools, wheel, pip"
  RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  message("the test is left out: not found: pip, setuptools or wheel")
  return()
endif()

file(REMOVE_RECURSE ${FOLDER}/venv)
execute_process(
  COMMAND ${PYTHON} -m venv --system-site-packages --without-pip ${FOLDER}/venv
  COMMAND_ERROR_IS_FATAL ANY)
set(own_python ${FOLDER}/venv/bin/python)
# Selects the fastest build: no optimization, few translation units, and no device code.
string(CONCAT cmake_args "-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 "
  "-DCMAKE_UNITY_BUILD_BATCH_SIZE=32 -DASHLAR_CUDA_KERNELS=OFF")
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env ASHLAR_PIP_BUILD=${FOLDER}/build "CMAKE_ARGS=${cmake_args}"
    ${own_python} -m pip install --no-build-isolation --no-index --no-deps --quiet ${SOURCE}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${own_python} -c "import ashlar, ashlar._library as l
assert ashlar.__file__.startswith('${FOLDER}/venv'), ashlar.__file__
assert l.path().startswith('${FOLDER}/venv'), l.path()
assert ashlar.Allocator('sim:0').allocate(5).size == 5"
  WORKING_DIRECTORY ${FOLDER}
  COMMAND_ERROR_IS_FATAL ANY)
