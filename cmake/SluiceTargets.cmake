# sluice_headers(NAME HEADERS ... OPTIONS ... LINKS ... [EXECUTABLES]): headers that are parsed once, for targets
# with REUSE_FROM NAME. They must be compiled as those targets are, else GCC does not take them.
function(sluice_headers name)
  cmake_parse_arguments(ARG "EXECUTABLES" "" "HEADERS;OPTIONS;LINKS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/${name}.cc)
  file(GENERATE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  if(ARG_EXECUTABLES)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    list(APPEND ARG_OPTIONS -fPIE)
  endif()
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_LINKS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# Without these, tools/check_headers.py compiles each header alone, and so it tells which one forgets to include what it
# needs.
sluice_headers(library_headers HEADERS <algorithm> <atomic> <chrono> <filesystem> <functional> <map> <memory>
  <mutex> <optional> <span> <sstream> <string> <thread> <variant> <vector>)

# sluice_compile_together(TARGET): with a sanitizer, and with SLUICE_TOGETHER (make), several files are one compilation,
# which takes half as long. A file with a local name that another one has too stays alone
# (SKIP_UNITY_BUILD_INCLUSION), or its whole target does (UNITY_BUILD OFF).
function(sluice_compile_together target)
  if(SLUICE_SANITIZE OR SLUICE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # GCC warns of a class that uses a local name of a file that is not the one it compiles, as if that were a header.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# sluice_group(NAME FILE...): files of a target that are compiled together where the target's UNITY_BUILD_MODE is GROUP;
# files of no group stay alone.
function(sluice_group name)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP ${name})
endfunction()

# sluice_library(NAME SOURCES ... LINKS ... PRIVATE_LINKS ... [FOR_TESTS]) One static library per folder; its
# LINKS repeat the layer rules that tools/check_layers.py enforces. All are installed but those FOR_TESTS.
function(sluice_library name)
  cmake_parse_arguments(ARG "FOR_TESTS" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(sluice_${name} STATIC ${ARG_SOURCES})
  target_include_directories(sluice_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(sluice_${name}
    PUBLIC $<BUILD_INTERFACE:sluice_flags> ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  target_precompile_headers(sluice_${name} REUSE_FROM library_headers)
  sluice_compile_together(sluice_${name})
  if(NOT ARG_FOR_TESTS)
    set_property(GLOBAL APPEND PROPERTY SLUICE_LIBRARIES sluice_${name})
  endif()
endfunction()

# Everything in build/bin/, without the tests.
add_custom_target(programs)

# sluice_program(NAME SOURCES ... LINKS ... OUTPUT file): a program in build/bin/, installed with the rest.
# OUTPUT: where the file's name is not the target's.
function(sluice_program name)
  cmake_parse_arguments(ARG "" "OUTPUT" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_LINKS})
  if(ARG_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT})
  endif()
  add_dependencies(programs ${name})
  install(TARGETS ${name})
endfunction()

# Every test program.
add_custom_target(tests)

# Most of a test's time is its compilation, with a sanitizer most of all.
set(SLUICE_TEST_OPTIONS -Og)
if(SLUICE_SANITIZE)
  set(SLUICE_TEST_OPTIONS -O0)
endif()

# sluice_count_test_files(NAME RESULT): how many files with tests a program has, those of object libraries too.
function(sluice_count_test_files name result)
  get_target_property(sources ${name} SOURCES)
  set(objects ${sources})
  list(FILTER objects INCLUDE REGEX "^\\$<TARGET_OBJECTS:")
  foreach(object ${objects})
    string(REGEX REPLACE "^\\$<TARGET_OBJECTS:(.*)>$" "\\1" library ${object})
    get_target_property(more ${library} SOURCES)
    list(APPEND sources ${more})
  endforeach()
  list(FILTER sources INCLUDE REGEX "_test\\.cc$|_test\\.cu$")
  list(LENGTH sources count)
  set(${result} ${count} PARENT_SCOPE)
endfunction()

# sluice_add_cases(NAME PREFIX WITHOUT LABELS SECONDS ENVIRONMENT): NAME's cases but for those that match WITHOUT, a
# list of patterns, each as a CTest test of SECONDS at most. With a sanitizer, and with SLUICE_TOGETHER, since to begin a
# process takes as long as a case, in as many groups as NAME has files with tests: NAME/0, NAME/1, ...; the last line
# that says RUN names one that hangs.
function(sluice_add_cases name prefix without labels seconds environment)
  if("${prefix}" STREQUAL "cards:")  # 17,000 kernels a call, half a minute each: one store that sums on cards is enough
    list(APPEND without *ManyKeys.GoThroughEveryCall*/local *ManyKeys.GoThroughEveryCall*/dist_*)
  endif()
  if(SLUICE_SANITIZE)
    # These take minutes there, for steps that other cases take as well: large clusters; training, and of large networks;
    # 17,000 keys in every call; seven workers.
    list(APPEND without *SimScale.AThousand* *SimRoundTime.* *ByHeart *SyntheticPicturesLearning* *ALinearModelLearns*
      *ModelsOnCards.* *ModelOnCards.*/resnet20 *ManyKeys.GoThroughEveryCall* *_on_7)
    if("${prefix}" STREQUAL "cards:")
      # Stores that sum on the host are left to contract_tests; the release build runs them here as well.
      list(APPEND without *PlacedLayersTest.* */local* */nccl* *dist_sync* *async*)
    elseif("${name}" STREQUAL contract_tests)  # and those that sum on cards are left to the emulated cards
      list(APPEND without *dist_device*)
    endif()
  endif()
  if(SLUICE_SANITIZE STREQUAL thread)
    list(APPEND without *_on_3)
  endif()
  list(JOIN without ":" filter)
  # make check runs a program as a whole, since most cases take less time than a process does to begin, and without what
  # learns or needs a large network.
  if(NOT SLUICE_SANITIZE AND "${prefix}" STREQUAL "" AND labels MATCHES "unit|golden")
    add_test(NAME quick_${name} COMMAND ${name} --gtest_brief=1 "--gtest_filter=-${filter}:*Learn*:*resnet20*")
    set_tests_properties(quick_${name} PROPERTIES LABELS quick TIMEOUT 300 ENVIRONMENT "${environment}")
  endif()
  if(NOT SLUICE_SANITIZE AND NOT SLUICE_TOGETHER)
    string(REPLACE ":" "" list ${name}_${prefix})
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_PREFIX "${prefix}" TEST_FILTER "-${filter}" TEST_LIST ${list}
      PROPERTIES TIMEOUT ${seconds} LABELS "${labels}" ENVIRONMENT "${environment}")
    return()
  endif()
  sluice_count_test_files(${name} groups)
  math(EXPR last "${groups} - 1")
  math(EXPR seconds "10 * ${seconds}")
  foreach(group RANGE ${last})
    add_test(NAME ${prefix}${name}/${group} COMMAND ${name} "--gtest_filter=-${filter}")
    set_tests_properties(${prefix}${name}/${group} PROPERTIES TIMEOUT ${seconds} LABELS "${labels}"
      ENVIRONMENT "${environment};GTEST_TOTAL_SHARDS=${groups};GTEST_SHARD_INDEX=${group}"
      FAIL_REGULAR_EXPRESSION "Running 0 tests")
  endforeach()
endfunction()

# sluice_test(NAME SOURCES ... LINKS ... LABELS ... TIMEOUT seconds TRANSPORTS ... ONCE ... PREFIX text [NOT_FOR_TSAN]
# [NOT_SANITIZED]): one GoogleTest program; every case is tested, and again over each of TRANSPORTS, but for those whose
# names match the patterns ONCE. PREFIX begins the names of its tests, where another program has the same cases.
# NOT_FOR_TSAN: it has one thread, or others use its threads as well, and would tell TSan nothing. NOT_SANITIZED: it counts
# what a sanitizer changes.
function(sluice_test name)
  cmake_parse_arguments(ARG "NOT_FOR_TSAN;NOT_SANITIZED" "TIMEOUT;PREFIX" "SOURCES;LINKS;LABELS;TRANSPORTS;ONCE" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_precompile_headers(${name} REUSE_FROM test_headers)
  sluice_compile_together(${name})
  target_compile_options(${name} PRIVATE ${SLUICE_TEST_OPTIONS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if((ARG_NOT_FOR_TSAN AND SLUICE_SANITIZE STREQUAL thread) OR (ARG_NOT_SANITIZED AND SLUICE_SANITIZE))
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_dependencies(tests ${name})
  # Tests run beside each other: as RestartWithBriefSpins has it (sluice/runtime.h).
  set(environment GOMP_SPINCOUNT=3000)
  if(SLUICE_SANITIZE)
    string(APPEND environment ";SLUICE_SIM_SEEDS=20")  # 100 take minutes there
  endif()
  # With a sanitizer over one transport, which uses the default one as well.
  if(SLUICE_SANITIZE AND ARG_TRANSPORTS)
    list(GET ARG_TRANSPORTS 0 transport)
    sluice_add_cases(${name} ${transport}: "" "${ARG_LABELS}" ${ARG_TIMEOUT} "${environment};SLUICE_TRANSPORT=${transport}")
    return()
  endif()
  sluice_add_cases(${name} "${ARG_PREFIX}" "" "${ARG_LABELS}" ${ARG_TIMEOUT} "${environment}")
  # ZeroMQ's ipc is its tcp with another address; `make test TOGETHER=OFF` has it.
  if(SLUICE_TOGETHER)
    list(REMOVE_ITEM ARG_TRANSPORTS ipc)
  endif()
  foreach(transport ${ARG_TRANSPORTS})
    sluice_add_cases(${name} ${transport}: "${ARG_ONCE}" "${ARG_LABELS}" ${ARG_TIMEOUT}
      "${environment};SLUICE_TRANSPORT=${transport}")
  endforeach()
endfunction()

include(GoogleTest)
