# Looks for all packages that have to be installed before anything long begins: one error names every missing one.
#
# Sets the targets of find_package for Protobuf, Boost, nlohmann_json, tsl-robin-map, ZLIB, EXPAT. With
# WHENCE_STATIC the libraries are those that go into the command itself, so that a wheel needs none of them.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "whence needs GCC 12 or newer; ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_VERSION}")
endif()

set(missing_packages "")
function(require_file package)  # the rest: what find_path takes
  find_path(found_of_${package} ${ARGN})
  mark_as_advanced(found_of_${package})
  if(NOT found_of_${package})
    set(missing_packages ${missing_packages} ${package} PARENT_SCOPE)
  endif()
endfunction()

set(library_folders PATHS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES})
if(WHENCE_STATIC)
  set(protobuf_library libprotobuf.a)
  set(boost_library libboost_program_options.a)
  set(expat_library libexpat.a)
else()
  set(protobuf_library libprotobuf.so)
  set(boost_library libboost_program_options.so)
  set(expat_library libexpat.so)
endif()
require_file(protobuf-compiler NAMES protoc PATH_SUFFIXES bin)
require_file(libprotobuf-dev NAMES ${protobuf_library} ${library_folders})
require_file(libboost-program-options-dev NAMES ${boost_library} ${library_folders})
require_file(nlohmann-json3-dev NAMES nlohmann/json.hpp)
require_file(robin-map-dev NAMES tsl/robin_map.h)
require_file(libxxhash-dev NAMES xxhash.h)
require_file(zlib1g-dev NAMES zlib.h)
require_file(libexpat1-dev NAMES ${expat_library} ${library_folders})
if(missing_packages)
  string(REPLACE ";" " " missing_packages "${missing_packages}")
  message(FATAL_ERROR "packages that whence is built with are missing; on Debian and Ubuntu run as root: "
                      "apt-get install -y ${missing_packages}")
endif()

set(Protobuf_USE_STATIC_LIBS ${WHENCE_STATIC})
set(Boost_USE_STATIC_LIBS ${WHENCE_STATIC})
find_package(nlohmann_json REQUIRED)
find_package(Boost REQUIRED COMPONENTS program_options)
find_package(Protobuf REQUIRED)
find_package(tsl-robin-map CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
set(EXPAT_LIBRARY ${found_of_libexpat1-dev}/${expat_library} CACHE FILEPATH "the one that is linked")
find_package(EXPAT REQUIRED)
