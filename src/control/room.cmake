# The interpreter drivers become string constants: what runs in a sandbox ships inside the binary.
set(drivers ${CMAKE_SOURCE_DIR}/src/control/interpreters)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${drivers}/python_driver.py ${drivers}/node_driver.js ${drivers}/bash_driver.sh
             ${drivers}/perl_repl.pl)
file(READ ${drivers}/python_driver.py PYTHON_DRIVER)
file(READ ${drivers}/node_driver.js NODE_DRIVER)
file(READ ${drivers}/bash_driver.sh BASH_DRIVER)
file(READ ${drivers}/perl_repl.pl PERL_REPL)
configure_file(${drivers}/drivers.cpp.in ${CMAKE_BINARY_DIR}/generated/interpreter_drivers.cpp
               @ONLY)
target_sources(atoll_control PRIVATE ${CMAKE_BINARY_DIR}/generated/interpreter_drivers.cpp)
