# The guest must stay static, small, and free of everything that needs files of the host's C
# library at run time (name service, iconv, dlopen). glibc itself pulls dlopen into every static
# program, so the forbidden names are looked for in our own objects too, where they would be used.
set(max_bytes 2097152)
set(forbidden_anywhere getaddrinfo gethostbyname getpwnam getpwuid getpwent getgrnam getgrgid
    getgrent initgroups getgrouplist getservbyname)
set(forbidden_in_ours dlopen dlsym iconv_open setlocale system popen)

file(SIZE ${SHIPPED} bytes)
if(bytes GREATER max_bytes)
  message(FATAL_ERROR "atoll-guest has ${bytes} bytes, over the limit of ${max_bytes}")
endif()

function(refuse_symbols output names where)
  foreach(name ${names})
    if(output MATCHES "[ \n]${name}(_r)?\n")
      message(FATAL_ERROR "${where} uses ${name}")
    endif()
  endforeach()
endfunction()

execute_process(COMMAND ${NM} --format=posix ${UNSTRIPPED} OUTPUT_VARIABLE symbols
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " [^\n]*\n" "\n" symbols "\n${symbols}")
if(NOT symbols MATCHES "\nmain\n")
  message(FATAL_ERROR "no symbols found in ${UNSTRIPPED}: this check would prove nothing")
endif()
refuse_symbols("${symbols}" "${forbidden_anywhere}" "atoll-guest")
if(symbols MATCHES "\n_ZNSt8ios_base4InitC1Ev\n")
  message(FATAL_ERROR "atoll-guest uses iostream")
endif()

foreach(object ${OBJECTS})
  execute_process(COMMAND ${NM} --undefined-only --format=posix ${object}
                  OUTPUT_VARIABLE undefined COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE " [^\n]*\n" "\n" undefined "\n${undefined}")
  refuse_symbols("${undefined}" "${forbidden_in_ours}" "${object}")
endforeach()

execute_process(COMMAND ${READELF} -lW ${SHIPPED} OUTPUT_VARIABLE headers
                COMMAND_ERROR_IS_FATAL ANY)
if(headers MATCHES "INTERP")
  message(FATAL_ERROR "atoll-guest is not static: it names a program interpreter")
endif()
message(STATUS "atoll-guest: ${bytes} bytes, static")
