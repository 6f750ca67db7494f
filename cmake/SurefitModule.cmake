# Flags live in one interface target; modules name only their sources and the modules below them.
add_library(surefit_options INTERFACE)
target_compile_options(surefit_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
  # Where files are merged, one's constants shadow another's; the dev preset compiles each on its own.
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wshadow>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # Warns of a reference out of one argument because another argument is a temporary.
  target_compile_options(surefit_options INTERFACE -Wno-dangling-reference)
endif()
# Newer compilers find new false alarms; they must not keep anybody from building.
if(SUREFIT_WARNINGS_AS_ERRORS AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(surefit_options INTERFACE -Werror)
endif()
if(SUREFIT_ASSERTIONS)
  target_compile_definitions(surefit_options INTERFACE _GLIBCXX_ASSERTIONS)
endif()
if(SUREFIT_SANITIZE)
  target_compile_options(surefit_options INTERFACE
    -fsanitize=${SUREFIT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    # g++ 12 warns of code that it instrumented itself.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-stringop-overread>)
  target_link_options(surefit_options INTERFACE -fsanitize=${SUREFIT_SANITIZE})
endif()

# Headers of the standard library and of the test framework take longer to parse than most of our files to compile. They are
# parsed once; the dev preset parses them in each file, so that none lives on what another one included.
option(SUREFIT_PRECOMPILE "Precompile the headers that most files use, and compile files together" ON)
if(SUREFIT_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 forgets that precompiled headers are the system's, and warns of std::string itself.
  target_compile_options(surefit_options INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()
set(standard_headers <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <filesystem>
  <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view> <thread> <unordered_map>
  <variant> <vector> <fmt/format.h>)
# surefit_precompile(TARGET HEADERS...): the standard headers and these, for this target alone.
function(surefit_precompile target)
  if(SUREFIT_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${standard_headers} ${ARGN})
  endif()
endfunction()
# surefit_shared_headers(NAME HEADERS...): the same, for all targets that surefit_use_headers() names.
function(surefit_shared_headers name)
  file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/${name}.cpp CONTENT "")
  add_library(${name} STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled/${name}.cpp)
  target_link_libraries(${name} PRIVATE surefit_options fmt::fmt)
  surefit_precompile(${name} ${ARGN})
endfunction()
function(surefit_use_headers target name)
  if(SUREFIT_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()
surefit_shared_headers(surefit_headers)
# surefit_merge(TARGET): several files are compiled as one, for what they instantiate alike. Never kernels: what is inlined
# into what decides which products are fused, and so bits.
function(surefit_merge target)
  if(SUREFIT_PRECOMPILE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

# surefit_module(NAME SOURCES... DEPENDS modules... LINK libraries...)
function(surefit_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(surefit_${name} STATIC ${arg_SOURCES})
  target_include_directories(surefit_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(surefit_${name} PUBLIC cxx_std_20)
  target_link_libraries(surefit_${name} PRIVATE $<BUILD_INTERFACE:surefit_options>)
  target_link_libraries(surefit_${name} PUBLIC ${arg_LINK})
  surefit_use_headers(surefit_${name} surefit_headers)
  foreach(module ${arg_DEPENDS})
    target_link_libraries(surefit_${name} PUBLIC surefit_${module})
  endforeach()
endfunction()

# surefit_test(NAME SOURCES... DEPENDS modules...): one test binary per module.
function(surefit_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPENDS;LINK" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(SUREFIT_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
  endif()
  add_executable(${name}_test ${arg_SOURCES})
  # Tests are compiled more often than they run.
  target_compile_options(${name}_test PRIVATE -O1)
  surefit_use_headers(${name}_test surefit_test_headers)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE surefit_options GTest::gtest GTest::gtest_main ${arg_LINK})
  foreach(module ${arg_DEPENDS})
    target_link_libraries(${name}_test PRIVATE surefit_${module})
  endforeach()
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
endfunction()
