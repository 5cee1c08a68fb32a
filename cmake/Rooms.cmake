# SPDX-License-Identifier: Apache-2.0
# A folder is a room: a static library of its own, with the few others it may use named beside it.

# add_room(NAME SOURCES a.c b.c LINKS other_room PkgConfig::X)
function(add_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(${name} PUBLIC ${ROOM_LINKS})
endfunction()

# A criterion program. Its name says which room it tests; run by ctest.
# add_unit_test(NAME SOURCES a.c LINKS room)
function(add_unit_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE ${TEST_LINKS} PkgConfig::CRITERION Threads::Threads)
  # Criterion maps its arena where ThreadSanitizer has its shadow: below it only the programs of tests/stress run.
  if(IBVCAP_SANITIZE MATCHES thread)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 120)
endfunction()

# A libFuzzer program (preset fuzz, clang); the target fuzzers builds all of them.
# add_fuzzer(NAME SOURCES a.c LINKS room)
function(add_fuzzer name)
  if(NOT IBVCAP_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(FUZZ "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${FUZZ_SOURCES})
  target_link_libraries(${name} PRIVATE ${FUZZ_LINKS} -fsanitize=fuzzer Threads::Threads)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${name})
endfunction()

function(add_room_directory directory)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${directory}/CMakeLists.txt)
    add_subdirectory(${directory})
  endif()
endfunction()
