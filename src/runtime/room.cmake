# What criu is loaded with for a dump. A library of its own, for another C library than ours: plain
# C calls, no runtime of C++, no sanitizers.
add_library(atoll-criu SHARED ${CMAKE_SOURCE_DIR}/src/runtime/criu_adapter/main.cpp)
target_compile_options(atoll-criu PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics
                                          -fno-sanitize=all -fvisibility=default)
target_link_options(atoll-criu PRIVATE -nostdlib++ -fno-sanitize=all)
set_target_properties(atoll-criu PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_dependencies(atoll_runtime atoll-criu)
