add_executable(engine_bench "${CMAKE_CURRENT_LIST_DIR}/engine_bench.cc")
target_include_directories(engine_bench PRIVATE "${PROJECT_SOURCE_DIR}")
target_link_libraries(engine_bench PRIVATE understudy_warnings understudy::mocker benchmark::benchmark)
