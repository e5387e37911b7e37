# The library winnow_version holds base/version.h's GetBuildInfo(). A program that prints its version lists `version`
# among its DEPENDS. The git id is read again by every build, and only this one file is compiled when it changed.
get_directory_property(compile_options COMPILE_OPTIONS)
string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
string(JOIN " " version_flags ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}} ${compile_options})
set(version_source ${CMAKE_BINARY_DIR}/generated/version.cpp)

add_custom_target(winnow_version_source
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${CMAKE_SOURCE_DIR} -D OUTPUT=${version_source}
          -D WINNOW_VERSION=${PROJECT_VERSION} -D WINNOW_BUILD_TYPE=${CMAKE_BUILD_TYPE}
          "-DWINNOW_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
          "-DWINNOW_FLAGS=${version_flags}" -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake
  BYPRODUCTS ${version_source}
  COMMENT "Reading the git id"
  VERBATIM)
add_library(winnow_version STATIC ${version_source})
add_library(winnow::version ALIAS winnow_version)
add_dependencies(winnow_version winnow_version_source)
target_include_directories(winnow_version PUBLIC ${CMAKE_SOURCE_DIR})
