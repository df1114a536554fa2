# Compiler settings shared by every target, and helpers that declare libraries and tests.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

find_program(UNDERSTUDY_CCACHE ccache)
if(UNDERSTUDY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${UNDERSTUDY_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${UNDERSTUDY_CCACHE}")
endif()

add_library(understudy_warnings INTERFACE)
target_compile_options(understudy_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast
  -Wnon-virtual-dtor -Woverloaded-virtual)

# understudy_library(<name> ALIAS <alias> SOURCES <files...> [PUBLIC <targets...>] [PRIVATE <targets...>])
# A static library whose own headers are found from the source root ("transport/nats/link.h").
function(understudy_library name)
  cmake_parse_arguments(ARG "" "ALIAS" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  add_library(understudy::${ARG_ALIAS} ALIAS ${name})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE understudy_warnings ${ARG_PRIVATE})
endfunction()

# Everything that the tests without servers need: ./dev test --quick builds only this.
add_custom_target(quick_tests)

# understudy_test(<name> LABEL <unit|integration|golden|...> SOURCES <files...> [LIBS <targets...>] [TIMEOUT <s>])
# A GoogleTest program, run whole by ctest under the given label.
function(understudy_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABEL;SOURCES;LIBS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE UNDERSTUDY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE understudy_warnings GTest::gtest_main ${ARG_LIBS})
  add_test(NAME ${name} COMMAND ${name} --gtest_color=no)
  if(NOT ARG_LABEL STREQUAL integration)
    add_dependencies(quick_tests ${name})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
