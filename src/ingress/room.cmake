# The workers of functions become string constants: what runs in a sandbox ships inside the binary.
set(workers ${CMAKE_SOURCE_DIR}/src/ingress/functions)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${workers}/python_worker.py ${workers}/node_worker.js)
file(READ ${workers}/python_worker.py PYTHON_WORKER)
file(READ ${workers}/node_worker.js NODE_WORKER)
configure_file(${workers}/workers.cpp.in ${CMAKE_BINARY_DIR}/generated/function_workers.cpp @ONLY)
target_sources(atoll_ingress PRIVATE ${CMAKE_BINARY_DIR}/generated/function_workers.cpp)
