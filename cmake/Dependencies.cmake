# Debian packages only, nothing is downloaded. The names differ between Debian releases where noted.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
# The package file cnats-config.cmake of Debian 12 names a static library that is not shipped: use pkg-config.
pkg_check_modules(NATS REQUIRED IMPORTED_TARGET libnats)
# minizip's headers include zlib's, which libminizip-dev does not bring along.
find_package(ZLIB REQUIRED)
pkg_check_modules(MINIZIP REQUIRED IMPORTED_TARGET minizip)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
find_package(spdlog CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(simdjson CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(tl-expected CONFIG REQUIRED)
if(UNDERSTUDY_BUILD_TESTS)
  find_package(GTest CONFIG REQUIRED)
endif()
if(UNDERSTUDY_BUILD_TESTS AND UNDERSTUDY_BUILD_BENCH)
  find_package(benchmark CONFIG REQUIRED)
endif()

# msgpack-c: the CMake target is called msgpackc-cxx on Debian 12 and msgpack-cxx on Debian 13; both want Boost
# headers that MSGPACK_NO_BOOST does without.
find_path(MSGPACK_INCLUDE_DIR msgpack.hpp REQUIRED)
add_library(understudy_msgpack INTERFACE)
target_include_directories(understudy_msgpack SYSTEM INTERFACE "${MSGPACK_INCLUDE_DIR}")
target_compile_definitions(understudy_msgpack INTERFACE MSGPACK_NO_BOOST)

# Standalone asio has no package file on Debian 12.
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
add_library(understudy_asio INTERFACE)
target_include_directories(understudy_asio SYSTEM INTERFACE "${ASIO_INCLUDE_DIR}")
target_compile_definitions(understudy_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_link_libraries(understudy_asio INTERFACE Threads::Threads)
