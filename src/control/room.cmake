# The interpreter drivers become string constants: what runs in a sandbox ships inside the binary.
set(drivers ${CMAKE_SOURCE_DIR}/src/control/interpreters)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             ${drivers}/python_driver.py ${drivers}/python_charts.py ${drivers}/node_driver.js
             ${drivers}/bash_driver.sh ${drivers}/pipe_bridge.sh ${drivers}/r_driver.R
             ${drivers}/java_driver.java ${drivers}/perl_repl.pl)
file(READ ${drivers}/python_driver.py PYTHON_DRIVER)
file(READ ${drivers}/python_charts.py PYTHON_CHARTS)
file(READ ${drivers}/node_driver.js NODE_DRIVER)
file(READ ${drivers}/bash_driver.sh BASH_DRIVER)
file(READ ${drivers}/pipe_bridge.sh PIPE_BRIDGE)
file(READ ${drivers}/r_driver.R R_DRIVER)
file(READ ${drivers}/java_driver.java JAVA_DRIVER)
file(READ ${drivers}/perl_repl.pl PERL_REPL)
configure_file(${drivers}/drivers.cpp.in ${CMAKE_BINARY_DIR}/generated/interpreter_drivers.cpp
               @ONLY)
target_sources(atoll_control PRIVATE ${CMAKE_BINARY_DIR}/generated/interpreter_drivers.cpp)
