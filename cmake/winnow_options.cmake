# Language, warnings and sanitizers, the same for every target.
option(WINNOW_BUILD_TESTS "Build the tests" ON)
option(WINNOW_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" ON)
set(WINNOW_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

# x86-64-v3 is the floor of the exactness contract (AVX2, FMA, F16C); wider kernels are chosen at run time.
# No contraction: the compiler must not decide where a multiply and an add are fused, or bits would depend on it.
add_compile_options(-march=x86-64-v3 -ffp-contract=off -Wall -Wextra -Wshadow -Wno-psabi)
# GCC 12 at -O3 takes "text" + std::string for an overlapping copy (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)
endif()
# Not in sanitizer builds: instrumented code makes GCC 12 warn of overflows that are not there.
if(WINNOW_WARNINGS_AS_ERRORS AND NOT WINNOW_SANITIZE)
  add_compile_options(-Werror)
endif()
if(WINNOW_SANITIZE)
  add_compile_options(-fsanitize=${WINNOW_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${WINNOW_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
