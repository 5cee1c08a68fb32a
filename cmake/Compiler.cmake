# SPDX-License-Identifier: Apache-2.0
# One set of flags for everything that is built here.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET default)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

add_compile_options(
  -Wall -Wextra -Wshadow -Wundef -Wvla -Wpointer-arith -Wwrite-strings -Wformat=2
  -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -fno-common
  -Wno-c2x-extensions) # clang's: parameters of a handler that does not use them have no name
add_compile_definitions(_GNU_SOURCE IBVCAP_BUILD_VERSION="${PROJECT_VERSION}")
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/lib/ibvcap/include)
if(IBVCAP_WERROR)
  add_compile_options(-Werror)
endif()
if(IBVCAP_SANITIZE)
  # -O1 -g1 takes half of the time to compile; reports still have their lines.
  add_compile_options(-fsanitize=${IBVCAP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -O1 -g1)
  add_link_options(-fsanitize=${IBVCAP_SANITIZE})
  if(IBVCAP_SANITIZE MATCHES thread AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    # It does not see fences. The only one of ours is a tap's, between copy and look; where a tap runs beside a worker,
    # that is in another process, of which this knows nothing anyway. tests/model has that order.
    add_compile_options(-Wno-tsan)
  endif()
endif()
if(IBVCAP_FUZZERS)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "IBVCAP_FUZZERS needs clang: cmake --preset fuzz, or CC=clang in a new build directory")
  endif()
  # Coverage in every room, so that the fuzzers see which bytes lead where.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
