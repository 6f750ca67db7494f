# Flags live in one interface target; modules name only their sources and the modules below them.
add_library(surefit_options INTERFACE)
target_compile_options(surefit_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi)
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
  add_executable(${name}_test ${arg_SOURCES})
  # Tests are compiled more often than they run.
  target_compile_options(${name}_test PRIVATE -O1)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE surefit_options GTest::gtest GTest::gtest_main ${arg_LINK})
  foreach(module ${arg_DEPENDS})
    target_link_libraries(${name}_test PRIVATE surefit_${module})
  endforeach()
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
endfunction()
