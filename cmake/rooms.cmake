# One static library per room (src/<room>), one test binary per room that has *_test.cpp files.
# Sources are globbed: a new file in a room needs no line here.

add_library(atoll_pch_host STATIC ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
target_include_directories(atoll_pch_host PUBLIC ${CMAKE_SOURCE_DIR}/src)
target_precompile_headers(atoll_pch_host PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

function(atoll_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LINKS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|/main)\\.cpp$")
  list(TRANSFORM ROOM_USES PREPEND atoll_)
  if(sources)
    add_library(atoll_${name} STATIC ${sources})
    target_include_directories(atoll_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_precompile_headers(atoll_${name} REUSE_FROM atoll_pch_host)
    target_link_libraries(atoll_${name} PUBLIC ${ROOM_USES} ${ROOM_LINKS})
  else()
    add_library(atoll_${name} INTERFACE)
    target_link_libraries(atoll_${name} INTERFACE ${ROOM_USES} ${ROOM_LINKS})
  endif()
  # What only this room needs, such as generated sources.
  include(${CMAKE_SOURCE_DIR}/src/${name}/room.cmake OPTIONAL)
  if(tests)
    atoll_test(${name} atoll_${name} ${tests})
  endif()
endfunction()

function(atoll_test name library)
  add_executable(${name}_test ${ARGN})
  target_link_libraries(${name}_test PRIVATE ${library} GTest::gtest GTest::gtest_main)
  target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR}/src)
  gtest_discover_tests(${name}_test TEST_PREFIX unit.${name}. DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 120 LABELS unit)
endfunction()

# The part of the guest that the host links too: its wire types, no agent code.
function(atoll_wire name)
  cmake_parse_arguments(WIRE "" "" "USES" ${ARGN})
  list(TRANSFORM WIRE_USES PREPEND atoll_)
  file(GLOB wire_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/wire*.cpp)
  list(FILTER wire_sources EXCLUDE REGEX "_test\\.cpp$")
  add_library(atoll_${name}_wire STATIC ${wire_sources})
  target_include_directories(atoll_${name}_wire PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(atoll_${name}_wire PUBLIC ${WIRE_USES})
endfunction()

include(GoogleTest)
