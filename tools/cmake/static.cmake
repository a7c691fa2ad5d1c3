# whence_static: the command as one file that runs on any Linux with this processor, with any libc, for wheels and releases
# (`make wheel`). Built only on request, from the command's own objects and static archives of all libraries.
# tools/whence/static replaces the code that loads the recorder.
#
# Position-independent, because the command reads untrusted files: its code has no fixed address.

file(GLOB static_sources CONFIGURE_DEPENDS tools/whence/static/*.cpp)
set(static_archives "")
set(static_missing "")
foreach(name boost_program_options protobuf expat z ${re2_archives} ${WHENCE_STATIC_ALLOCATOR})
  find_library(archive_of_${name} NAMES lib${name}.a)
  mark_as_advanced(archive_of_${name})
  if(archive_of_${name})
    list(APPEND static_archives ${archive_of_${name}})
  else()
    list(APPEND static_missing lib${name}.a)
  endif()
endforeach()
if(static_missing)
  string(REPLACE ";" ", " static_missing "${static_missing}")
  message(STATUS "no static command (whence_static): there is no ${static_missing}")
  return()
endif()

set(static_objects $<TARGET_OBJECTS:whence>)
if(WHENCE_STATIC_ALLOCATOR MATCHES "tcmalloc")
  set(static_objects $<FILTER:${static_objects},EXCLUDE,new[.]cpp>)  # tcmalloc defines `new` itself, and it throws if memory runs out
endif()
add_executable(whence_static EXCLUDE_FROM_ALL ${static_sources} ${static_objects})
set_target_properties(whence_static PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/static OUTPUT_NAME whence)
add_dependencies(whence_static whence_annotator whence_schema)
# Links files, because targets would add shared libraries. The linker skips a member of libwhence_annotator.a if all its
# symbols are already defined.
target_link_libraries(whence_static PRIVATE
  $<TARGET_FILE:whence_annotator> $<TARGET_FILE:whence_schema> $<TARGET_FILE:ONNX::onnx> $<TARGET_FILE:ONNX::onnx_proto>
  ${static_archives} -lm -pthread)
# static/whence.d lists all linked files; tools/setup/linked.py reads it.
target_link_options(whence_static PRIVATE -static-pie -s LINKER:--dependency-file=static/whence.d)

# whence_portable: the command that loads the recorder, for the recorder's package. It needs libc and libstdc++ from the
# system, like LibTorch, and uses libc's malloc, because LibTorch uses it too.
set(portable_archives ${static_archives})
list(FILTER portable_archives EXCLUDE REGEX "malloc")
add_executable(whence_portable EXCLUDE_FROM_ALL tools/whence/portable/newer_symbols.cpp $<TARGET_OBJECTS:whence>)
set_target_properties(whence_portable PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable OUTPUT_NAME whence)
add_dependencies(whence_portable whence_annotator whence_schema)
target_link_libraries(whence_portable PRIVATE
  $<TARGET_FILE:whence_annotator> $<TARGET_FILE:whence_schema> $<TARGET_FILE:ONNX::onnx> $<TARGET_FILE:ONNX::onnx_proto>
  ${portable_archives} ${CMAKE_DL_LIBS} -lm -pthread)
target_link_options(whence_portable PRIVATE -s)
