# Build options and the flags every target of the project is compiled with.
option(SLUICE_TESTS "Build the tests" ON)
option(SLUICE_FUZZERS "Build the libFuzzer programs (needs Clang)" OFF)
option(SLUICE_PYTHON "Build the Python package's extension module (needs nanobind)" OFF)
option(SLUICE_TOGETHER "Several files are one compilation, and several cases one test, as with a sanitizer: quicker from nothing" OFF)
option(SLUICE_SOAK "With TSan: also the tests that take minutes there (make soak)" OFF)
set(SLUICE_SANITIZE "" CACHE STRING "Empty, 'address' (with undefined behaviour) or 'thread'")
set_property(CACHE SLUICE_SANITIZE PROPERTY STRINGS "" address thread)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # what ccache's manual asks for behind precompiled headers
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

add_library(sluice_flags INTERFACE)
target_compile_options(sluice_flags INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
# GCC 12 warns of what its own std::string does (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(sluice_flags INTERFACE -Wno-restrict)
endif()
# The same sum must come out whatever the compiler contracts: reductions are promised bit-reproducible.
target_compile_options(sluice_flags INTERFACE -ffp-contract=off)

if(SLUICE_SANITIZE STREQUAL "address")
  target_compile_options(sluice_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sluice_flags INTERFACE -fsanitize=address,undefined)
elseif(SLUICE_SANITIZE STREQUAL "thread")
  target_compile_options(sluice_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(sluice_flags INTERFACE -fsanitize=thread)
elseif(NOT SLUICE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "SLUICE_SANITIZE is '${SLUICE_SANITIZE}'; use '', 'address' or 'thread'")
endif()
