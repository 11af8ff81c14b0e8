# The contract and its pages become constants of the binary.
set(contract ${CMAKE_BINARY_DIR}/generated/contract_pages.cpp)
file(GLOB renderer CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/api/render/*)
add_custom_command(
  OUTPUT ${contract}
  COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1
          /usr/bin/python3 ${CMAKE_SOURCE_DIR}/api/render ${CMAKE_SOURCE_DIR}/api/openapi.yaml
          ${CMAKE_BINARY_DIR}/generated
  DEPENDS ${CMAKE_SOURCE_DIR}/api/openapi.yaml ${renderer}
  VERBATIM)
target_sources(atoll_service PRIVATE ${contract})
