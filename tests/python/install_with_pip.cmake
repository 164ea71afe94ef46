# SPDX-License-Identifier: Apache-2.0
#
# Makes a wheel with pip, as the guide describes, installs it into a virtual environment, and uses
# the package and the command. Calls the system's pip, because Debian packages it separately from
# venv. Takes the binaries from the build folder BUILD, which is configured already.
#   cmake -DPYTHON=... -DSOURCE=... -DBUILD=... -DFOLDER=... -P install_with_pip.cmake
execute_process(
  COMMAND ${PYTHON} -c "import setuptools, wheel, pip"
  RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
if(missing)
  message("the test is left out: not found: pip, setuptools or wheel")
  return()
endif()

file(REMOVE_RECURSE ${FOLDER})
execute_process(
  COMMAND ${PYTHON} -m venv --system-site-packages --without-pip ${FOLDER}/venv
  COMMAND_ERROR_IS_FATAL ANY)
set(own_python ${FOLDER}/venv/bin/python)
set(offline --no-index --no-deps --quiet)
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env ASHLAR_PIP_BUILD=${BUILD}
    ${own_python} -m pip wheel --no-build-isolation ${offline} -w ${FOLDER} ${SOURCE}
  COMMAND_ERROR_IS_FATAL ANY)
file(GLOB wheel ${FOLDER}/ashlar-*.whl)
execute_process(
  COMMAND ${own_python} -m pip install ${offline} ${wheel}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${own_python} -c "import importlib.metadata as m, ashlar, ashlar._library as l
import ashlar._native as n
assert ashlar.__file__.startswith('${FOLDER}/venv'), ashlar.__file__
assert l.path().startswith('${FOLDER}/venv'), l.path()
assert ashlar.Allocator('sim:0').allocate(5).size == 5
import ashlar.allocators
from ashlar import symm
assert symm.Heap().allocate(8).view().nbytes == 8
sources, includes = n._sources()
assert str(sources[0]).startswith('${FOLDER}/venv'), sources
assert m.metadata('ashlar')['License'] == 'Apache-2.0'
assert [f for f in m.files('ashlar') if f.name == 'LICENSE']"
  WORKING_DIRECTORY ${FOLDER}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${FOLDER}/venv/bin/ashlar --version
  COMMAND_ERROR_IS_FATAL ANY)
