# `make install PREFIX=...`: the command, the libraries, their headers, and a CMake package for C++ projects:
#
#   find_package(whence REQUIRED)
#   target_link_libraries(my_program PRIVATE whence::annotator)   # ONNX files: #include <whence/annotate.h>
#   target_link_libraries(my_program PRIVATE whence::recorder)    # torch::nn modules: #include <whence/record.h>
#
# ONNX C++ is also installed, in lib/whence/onnx: the static annotator library needs the build it was compiled with.

include(CMakePackageConfigHelpers)

install(TARGETS whence RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set_target_properties(whence_schema PROPERTIES EXPORT_NAME schema)
set_target_properties(whence_annotator PROPERTIES EXPORT_NAME annotator)
foreach(library whence_schema whence_annotator)
  target_include_directories(${library} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${library} PUBLIC cxx_std_20)
endforeach()
install(TARGETS whence_schema whence_annotator EXPORT whence ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET whence_recorder)
  install(TARGETS whence_recorder whence_recorder_entry LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES $<TARGET_OBJECTS:whence_layers> DESTINATION ${CMAKE_INSTALL_LIBDIR}/whence RENAME layers.o)
endif()

install(DIRECTORY include/whence DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# The JSON Schemas of whence's JSON outputs.
file(GLOB json_schemas CONFIGURE_DEPENDS schema/*.schema.json)
install(FILES ${json_schemas} DESTINATION ${CMAKE_INSTALL_DATADIR}/whence)
install(DIRECTORY ${ONNX_ROOT}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/whence/onnx)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/whence)
install(EXPORT whence NAMESPACE whence:: FILE whenceTargets.cmake DESTINATION ${package_folder})
configure_package_config_file(tools/cmake/whenceConfig.cmake.in ${CMAKE_BINARY_DIR}/whenceConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/whenceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/whenceConfig.cmake ${CMAKE_BINARY_DIR}/whenceConfigVersion.cmake tools/cmake/re2.cmake
        DESTINATION ${package_folder})
