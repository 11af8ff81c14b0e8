# Compiler choice and flags, in one place.
#
# gcc 12 and 14 miscompile or refuse ordinary coroutine code (tests/toolchain shows it), so clang
# is required until a gcc passes that battery.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR
    "Atoll needs clang 19 or newer: other compilers miscompile its coroutines "
    "(see tests/toolchain). Install it with tools/setup and configure with a preset, "
    "for example: cmake --preset rel")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

option(ATOLL_WERROR "Treat warnings as errors" ON)
option(ATOLL_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(ATOLL_FAULT_POINTS "Keep the fault points that the crash tests arm (src/base/fault_point.h)" ON)
option(ATOLL_FUZZ "Build the fuzz targets for libFuzzer, with the sanitizers" OFF)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wthread-safety -fno-strict-aliasing
                    -Xclang -fno-pch-timestamp -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.
                    # Designated initialisers that leave members at their defaults are our idiom.
                    -Wno-missing-designated-field-initializers -Wno-missing-field-initializers
                    # TRY and LOG take an optional list.
                    -Wno-gnu-zero-variadic-macro-arguments)
if(NOT ATOLL_FAULT_POINTS)
  add_compile_definitions(ATOLL_FAULT_POINTS=0)
endif()
if(ATOLL_WERROR)
  add_compile_options(-Werror)
endif()
if(ATOLL_FUZZ)
  set(ATOLL_SANITIZE ON)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(ATOLL_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-fstack-protector-strong -fcf-protection -U_FORTIFY_SOURCE
                      -D_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
add_link_options(-fuse-ld=lld-19)
