# whence_static: the command as one file that runs on any Linux of its processor, whatever libc is there, for wheels and
# releases (`make wheel`). Built only when it is asked for. Of the command's own objects, and archives of everything else;
# tools/whence/static takes the place of the code that loads the recorder.
#
# Position-independent, as the command reads files of others: where its code lies is not known beforehand.

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
  set(static_objects $<FILTER:${static_objects},EXCLUDE,new[.]cpp>)  # it brings `new`, which throws where memory runs out
endif()
add_executable(whence_static EXCLUDE_FROM_ALL ${static_sources} ${static_objects})
set_target_properties(whence_static PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/static OUTPUT_NAME whence)
add_dependencies(whence_static whence_annotator whence_schema)
# By their files: as targets they would bring shared libraries along. A member of libwhence_annotator.a of which all is
# defined already is not linked.
target_link_libraries(whence_static PRIVATE
  $<TARGET_FILE:whence_annotator> $<TARGET_FILE:whence_schema> $<TARGET_FILE:ONNX::onnx> $<TARGET_FILE:ONNX::onnx_proto>
  ${static_archives} -lm -pthread)
# static/whence.d: everything that was linked, which tools/setup/linked.py reads.
target_link_options(whence_static PRIVATE -static-pie -s LINKER:--dependency-file=static/whence.d)

# whence_portable: the command that loads the recorder, for the recorder's package. Of the system it needs libc and libstdc++,
# which LibTorch needs as well; the malloc is libc's, since another one would meet LibTorch's memory.
set(portable_archives ${static_archives})
list(FILTER portable_archives EXCLUDE REGEX "malloc")
add_executable(whence_portable EXCLUDE_FROM_ALL tools/whence/portable/newer_symbols.cpp $<TARGET_OBJECTS:whence>)
set_target_properties(whence_portable PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable OUTPUT_NAME whence)
add_dependencies(whence_portable whence_annotator whence_schema)
target_link_libraries(whence_portable PRIVATE
  $<TARGET_FILE:whence_annotator> $<TARGET_FILE:whence_schema> $<TARGET_FILE:ONNX::onnx> $<TARGET_FILE:ONNX::onnx_proto>
  ${portable_archives} ${CMAKE_DL_LIBS} -lm -pthread)
target_link_options(whence_portable PRIVATE -s)
