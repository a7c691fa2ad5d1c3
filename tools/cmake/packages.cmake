# Looks for all required packages before any long step. One error lists all missing packages by their names in the system
# (tools/setup/packages.txt).
#
# Sets the targets of find_package for Protobuf, Boost, nlohmann_json, tsl-robin-map, ZLIB, EXPAT, and whence_re2. With
# WHENCE_STATIC, these are static libraries, so that a wheel needs none of them.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "whence needs GCC 12 or newer; ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_VERSION}")
endif()

set(Protobuf_USE_STATIC_LIBS ${WHENCE_STATIC})
set(Boost_USE_STATIC_LIBS ${WHENCE_STATIC})
if(WHENCE_STATIC)
  find_library(EXPAT_LIBRARY NAMES libexpat.a)
endif()
find_program(PROTOC protoc)
find_path(XXHASH_INCLUDE_DIR xxhash.h)
mark_as_advanced(PROTOC XXHASH_INCLUDE_DIR)
find_package(nlohmann_json QUIET)
find_package(Boost QUIET COMPONENTS program_options)
find_package(Protobuf QUIET)
find_package(tsl-robin-map CONFIG QUIET)
find_package(ZLIB QUIET)
find_package(EXPAT QUIET)
include(tools/cmake/re2.cmake)

set(missing_packages "")
file(STRINGS ${CMAKE_SOURCE_DIR}/tools/setup/packages.txt package_rows REGEX "^build ")
foreach(row IN LISTS package_rows)
  string(REGEX MATCHALL "[^ ]+" row "${row}")
  list(GET row 1 needed)
  list(GET row 2 package)
  set(found ON)
  if(needed STREQUAL "protoc")
    set(found ${PROTOC})
  elseif(needed STREQUAL "xxhash.h")
    set(found ${XXHASH_INCLUDE_DIR})
  elseif(NOT needed STREQUAL "-")
    set(found ${${needed}_FOUND})
  endif()
  if(NOT found)
    list(APPEND missing_packages ${package})
  endif()
endforeach()
if(missing_packages)
  string(REPLACE ";" " " missing_packages "${missing_packages}")
  message(FATAL_ERROR "packages that whence is built with are missing; on Debian and Ubuntu run as root: "
                      "apt-get install -y ${missing_packages}")
endif()
