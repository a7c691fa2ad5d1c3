# Defines the rooms (folders) in order, and which rooms each may include. tests/guards/test_rooms.py reads this list. It
# fails on an #include that the list does not allow, on an allowed one that no file uses, and on a cycle.
#
#   annotator_room(NAME [USES room...] [NEEDS library...])   annotator/NAME, after the rooms that it uses
#   recorder_room(NAME [USES room...])                       recorder/NAME, after the rooms that it uses
#
# A room is an object library, whence_NAME or whence_recorder_NAME, and links the rooms that it uses. All annotator rooms
# make one static library, all recorder rooms one shared library. Every room may include schema/ and include/.
#
# command_rooms: the rooms that tools/whence may include. `app` has one function for each use; the other rooms define
# the structs that these functions return, and print them (to_text, to_json, write_dot).

function(annotator_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "USES;NEEDS")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS annotator/${name}/*.cpp)
  add_library(whence_${name} OBJECT ${sources})
  target_compile_definitions(whence_${name} PRIVATE WHENCE_VERSION="${PROJECT_VERSION}" _GLIBCXX_ASSERTIONS)
  target_precompile_headers(whence_${name} REUSE_FROM whence_schema)
  list(TRANSFORM room_USES PREPEND whence_)
  target_link_libraries(whence_${name} PUBLIC whence_schema ${room_USES} PRIVATE ${room_NEEDS})
  compile_together(whence_${name} 8)
  set_property(GLOBAL APPEND PROPERTY annotator_rooms whence_${name})
endfunction()

annotator_room(text NEEDS whence_re2)
annotator_room(operators)
annotator_room(program)
annotator_room(origin)
annotator_room(onnx_file USES text origin NEEDS nlohmann_json::nlohmann_json)
annotator_room(graph USES program origin)
annotator_room(convert USES operators program graph NEEDS nlohmann_json::nlohmann_json ONNX::onnx)
# No unity build: converters are named like operators, and files contain equal names.
set_target_properties(whence_convert PROPERTIES UNITY_BUILD OFF)
annotator_room(lower USES program convert)
annotator_room(metadata USES text operators origin onnx_file graph convert NEEDS nlohmann_json::nlohmann_json)
annotator_room(pt2 USES origin convert metadata NEEDS nlohmann_json::nlohmann_json whence_re2)
annotator_room(simplify USES operators program graph convert)
annotator_room(write USES text origin onnx_file graph lower metadata NEEDS ONNX::onnx ONNX::onnx_proto)
annotator_room(exporter USES text program origin graph convert lower simplify)
annotator_room(checkpoint NEEDS nlohmann_json::nlohmann_json)
annotator_room(match USES text operators program origin onnx_file graph metadata exporter NEEDS nlohmann_json::nlohmann_json ONNX::onnx)
annotator_room(derivation USES text program origin onnx_file graph simplify metadata exporter checkpoint NEEDS nlohmann_json::nlohmann_json whence_re2 ONNX::onnx ONNX::onnx_proto)
# Tools round after each operation; a fused multiplication and addition would give other bits.
target_compile_options(whence_derivation PRIVATE -ffp-contract=off -O3)
annotator_room(comparison USES operators program origin onnx_file graph simplify exporter match derivation NEEDS ONNX::onnx ONNX::onnx_proto)
annotator_room(annotation USES text origin onnx_file metadata exporter match NEEDS nlohmann_json::nlohmann_json)
annotator_room(functions USES text operators origin onnx_file graph convert simplify metadata write NEEDS nlohmann_json::nlohmann_json ONNX::onnx ONNX::onnx_proto)
annotator_room(view USES text operators origin onnx_file metadata match functions NEEDS nlohmann_json::nlohmann_json)
annotator_room(dialect USES onnx_file view NEEDS nlohmann_json::nlohmann_json)
annotator_room(profile USES text onnx_file metadata match functions view NEEDS nlohmann_json::nlohmann_json EXPAT::EXPAT whence_re2)
annotator_room(placement USES text origin onnx_file metadata view NEEDS nlohmann_json::nlohmann_json)
annotator_room(validation USES text operators origin onnx_file metadata derivation functions view NEEDS nlohmann_json::nlohmann_json ONNX::onnx)
annotator_room(report USES text origin onnx_file metadata functions view validation NEEDS nlohmann_json::nlohmann_json ZLIB::ZLIB)
annotator_room(app USES text program origin onnx_file graph convert lower metadata pt2 checkpoint derivation comparison write exporter match annotation functions view dialect profile placement validation report NEEDS nlohmann_json::nlohmann_json ${CMAKE_DL_LIBS})

# Compiled separately, because whence_static replaces it (static.cmake).
set_source_files_properties(annotator/app/recorder_loading.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

set(command_rooms text view dialect profile placement validation app)

include(tools/cmake/report_page.cmake)
target_include_directories(whence_report PRIVATE ${CMAKE_BINARY_DIR})
target_include_directories(whence_app PRIVATE ${CMAKE_BINARY_DIR}/generated)

get_property(rooms GLOBAL PROPERTY annotator_rooms)
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE room_objects)
add_library(whence_annotator STATIC ${room_objects})
set_target_properties(whence_annotator PROPERTIES LINKER_LANGUAGE CXX)
target_link_libraries(whence_annotator PUBLIC whence_schema
                      PRIVATE ONNX::onnx ONNX::onnx_proto protobuf::libprotobuf EXPAT::EXPAT ZLIB::ZLIB whence_re2)

if(NOT WHENCE_RECORDER)
  return()
endif()

function(recorder_room name)
  cmake_parse_arguments(PARSE_ARGV 1 room "" "" "USES")
  file(GLOB sources CONFIGURE_DEPENDS recorder/${name}/*.cpp)
  list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/recorder/native/layers.cpp)
  add_library(whence_recorder_${name} OBJECT ${sources})
  target_compile_definitions(whence_recorder_${name} PRIVATE WHENCE_VERSION="${PROJECT_VERSION}")
  if(name STREQUAL base)
    target_precompile_headers(whence_recorder_base PRIVATE <recorder/base/torch_pch.h>)
  else()
    target_precompile_headers(whence_recorder_${name} REUSE_FROM whence_recorder_base)
  endif()
  target_include_directories(whence_recorder_${name} PRIVATE ${CMAKE_BINARY_DIR}/generated)
  list(TRANSFORM room_USES PREPEND whence_recorder_)
  target_link_libraries(whence_recorder_${name} PUBLIC whence_schema whence_torch ${room_USES}
                        PRIVATE nlohmann_json::nlohmann_json ZLIB::ZLIB)
  compile_together(whence_recorder_${name} 6)
  set_property(GLOBAL APPEND PROPERTY recorder_rooms whence_recorder_${name})
endfunction()

recorder_room(base)
recorder_room(archive USES base)
recorder_room(inputs USES base archive)
recorder_room(program USES base archive)
recorder_room(detection USES base)
recorder_room(script USES base archive inputs program detection)
recorder_room(live USES base archive program)
recorder_room(native USES base inputs)

get_property(rooms GLOBAL PROPERTY recorder_rooms)
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE room_objects)
add_library(whence_recorder SHARED ${room_objects})
set_target_properties(whence_recorder PROPERTIES OUTPUT_NAME whence_recorder_torch LINKER_LANGUAGE CXX)
target_link_libraries(whence_recorder PUBLIC whence_schema whence_torch PRIVATE ZLIB::ZLIB nlohmann_json::nlohmann_json)
include(tools/cmake/native.cmake)
