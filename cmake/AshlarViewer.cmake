# SPDX-License-Identifier: Apache-2.0
#
# The page of `ashlar view`: one HTML file, built by npm, that the tool embeds.
#
#   ASHLAR_VIEWER_PAGE   the file; default: viewer/dist/index.html. If it is missing, the tool is
#                        built without the page, and `ashlar view` reports that.
#   viewer_page          the target that builds viewer/dist/index.html; exists only if Node.js and
#                        npm are installed
set(ASHLAR_VIEWER_PAGE ${PROJECT_SOURCE_DIR}/viewer/dist/index.html CACHE FILEPATH
  "The viewer's page, as one HTML file")

# Looks for the page in every build, so that a page built since the last build is embedded.
set(viewer_page_source ${CMAKE_CURRENT_BINARY_DIR}/viewer_page_bytes.cc)
add_custom_target(ashlar_viewer_page_bytes
  COMMAND ashlar_embed_page
    ${ASHLAR_VIEWER_PAGE} ${viewer_page_source} ${PROJECT_SOURCE_DIR}/viewer/src
  BYPRODUCTS ${viewer_page_source}
  COMMENT "Looking for the viewer's page")
target_sources(ashlar_view PRIVATE ${viewer_page_source})
set_source_files_properties(${viewer_page_source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_dependencies(ashlar_view ashlar_viewer_page_bytes)

if(EXISTS ${PROJECT_SOURCE_DIR}/viewer/package.json)
  find_program(ASHLAR_NODE node)
  find_program(ASHLAR_NPM npm)
  if(ASHLAR_NODE AND ASHLAR_NPM)
    add_custom_target(viewer_page
      COMMAND ${ASHLAR_NPM} ci
      COMMAND ${ASHLAR_NPM} run build
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/viewer
      COMMENT "Making the viewer's page"
      USES_TERMINAL)
  endif()
endif()
if(NOT EXISTS ${ASHLAR_VIEWER_PAGE})
  set(reason "the target viewer_page makes it")
  if(NOT TARGET viewer_page)
    set(reason "making it needs Node and npm")
  endif()
  message(STATUS
    "ashlar: the page of `ashlar view` is left out: no ${ASHLAR_VIEWER_PAGE}; ${reason}")
endif()
