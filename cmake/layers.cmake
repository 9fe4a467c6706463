# One library per layer. `sw_add_layer(name DEPENDS ...)` compiles every *.cc
# of the calling folder (and the listed sub-folders), keeps *_test.cc for the
# layer's test program and *_slow_test.cc for a second one (label "slow", preset
# slow), and links exactly the layers named: an include that is not declared
# here fails to link and `tools/check_layers.py` names it.
add_library(sw_options INTERFACE)
target_compile_features(sw_options INTERFACE cxx_std_20)
target_include_directories(sw_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(SW_DEVELOPER_MODE)
  target_compile_options(sw_options INTERFACE -Wall -Wextra -Wshadow -Werror)
endif()
if(SW_SANITIZE)
  set(sanitizers -fsanitize=address,undefined,float-cast-overflow)
  target_compile_options(sw_options INTERFACE ${sanitizers}
                                              -fno-sanitize-recover=all -g)
  target_link_options(sw_options INTERFACE ${sanitizers})
endif()

# Third-party headers take longer to compile than most of our files: they are
# precompiled once for all layers and once for all tests. The tidy preset builds
# without, so a file that forgets an include is found there.
set(SW_PRECOMPILED
    <fmt/format.h>
    <nlohmann/json.hpp>
    <tl/expected.hpp>
    <algorithm>
    <map>
    <string>
    <vector>)

# The first target of a kind makes the precompiled header, the others use it.
function(sw_precompile kind target)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  get_property(owner GLOBAL PROPERTY SW_PRECOMPILED_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    set_property(GLOBAL PROPERTY SW_PRECOMPILED_${kind} ${target})
    target_precompile_headers(${target} PRIVATE ${SW_PRECOMPILED} ${ARGN})
  endif()
endfunction()

# Arguments: name of the program, layer, label for ctest or "", sources.
function(sw_add_test program name label)
  add_executable(${program} ${ARGN})
  target_link_libraries(${program} PRIVATE sw_${name} GTest::gmock
                                           GTest::gtest_main)
  target_compile_definitions(${program}
                             PRIVATE SW_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # Tests compile faster with less optimisation; what they test keeps its own.
  target_compile_options(${program} PRIVATE -O1)
  sw_precompile(TEST ${program} <gmock/gmock.h> <gtest/gtest.h>)
  gtest_discover_tests(${program} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${label}")
endfunction()

function(sw_add_layer name)
  cmake_parse_arguments(LAYER "" "" "DEPENDS;FOLDERS" ${ARGN})
  set(patterns *.cc)
  foreach(folder IN LISTS LAYER_FOLDERS)
    list(APPEND patterns ${folder}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  if(NOT sources)
    return() # a room with nothing in it yet
  endif()
  set_property(GLOBAL APPEND PROPERTY SW_LAYERS ${name})
  add_library(sw_${name} STATIC ${sources})
  foreach(layer IN LISTS LAYER_DEPENDS)
    if(TARGET sw_${layer})
      target_link_libraries(sw_${name} PUBLIC sw_${layer})
    endif()
  endforeach()
  target_link_libraries(
    sw_${name} PUBLIC sw_options fmt::fmt nlohmann_json::nlohmann_json
                      tl::expected Threads::Threads)
  sw_precompile(LIBRARY sw_${name})
  set(slow_tests ${tests})
  list(FILTER slow_tests INCLUDE REGEX "_slow_test\\.cc$")
  list(FILTER tests EXCLUDE REGEX "_slow_test\\.cc$")
  if(SW_DEVELOPER_MODE AND tests)
    sw_add_test(${name}_test ${name} "" ${tests})
  endif()
  if(SW_DEVELOPER_MODE AND slow_tests)
    sw_add_test(${name}_slow_test ${name} slow ${slow_tests})
  endif()
endfunction()
