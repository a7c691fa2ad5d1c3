# Looks for a compiler before CMake does, so that one error lists all packages to install: packages.cmake needs a
# compiler to look for packages, and CMake's own error lists none.

find_program(ANY_CXX_COMPILER NAMES c++ g++ clang++)
mark_as_advanced(ANY_CXX_COMPILER)
if(NOT ANY_CXX_COMPILER AND NOT CMAKE_CXX_COMPILER AND NOT CMAKE_TOOLCHAIN_FILE AND NOT DEFINED ENV{CXX})
  file(STRINGS ${CMAKE_SOURCE_DIR}/tools/setup/packages.txt package_rows REGEX "^build ")
  list(TRANSFORM package_rows REPLACE ".* " "")
  string(REPLACE ";" " " packages "${package_rows}")
  message(FATAL_ERROR "there is no C++ compiler; on Debian and Ubuntu run as root: apt-get install -y ${packages}")
endif()
