# Defines the target whence_re2 from RE2's CMake package, else from pkg-config, because Debian 12 and Ubuntu 22.04 have
# no CMake package. Both include Abseil, which RE2 needs since 2023. Programs that link an installed whence::annotator
# also find RE2 with this file.
#
# Sets RE2_FOUND, and re2_archives: the names of the archives for a static command. With WHENCE_STATIC the target links
# these archives.

find_package(re2 CONFIG QUIET)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(RE2_PC QUIET re2)
endif()
set(re2_archives re2)
if(RE2_PC_FOUND)
  set(re2_archives ${RE2_PC_STATIC_LIBRARIES})
endif()
# Ignores pkg-config's other flags: -pthread would not match the precompiled headers.
set(re2_libraries ${RE2_PC_LINK_LIBRARIES})
if(TARGET re2::re2)
  set(re2_libraries re2::re2)
endif()
if(WHENCE_STATIC AND re2_libraries)
  set(re2_libraries "")
  foreach(name IN LISTS re2_archives)
    find_library(RE2_ARCHIVE_${name} NAMES lib${name}.a)
    mark_as_advanced(RE2_ARCHIVE_${name})
    if(RE2_ARCHIVE_${name})
      list(APPEND re2_libraries ${RE2_ARCHIVE_${name}})
    endif()
  endforeach()
endif()
set(RE2_FOUND OFF)
if(re2_libraries)
  set(RE2_FOUND ON)
  if(NOT TARGET whence_re2)
    add_library(whence_re2 INTERFACE IMPORTED GLOBAL)
    target_include_directories(whence_re2 INTERFACE ${RE2_PC_INCLUDE_DIRS})
    target_link_libraries(whence_re2 INTERFACE ${re2_libraries})
  endif()
endif()
