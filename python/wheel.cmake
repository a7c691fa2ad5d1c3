# Installs the parts of the wheel beside the Python files: whence/bin and whence/lib.
install(TARGETS whence RUNTIME DESTINATION bin COMPONENT python)
if(TARGET whence_recorder)
  install(TARGETS whence_recorder whence_recorder_entry LIBRARY DESTINATION lib COMPONENT python)
endif()
if(MIMALLOC_LIBRARY)
  # There is no static one. Its file under the name that the command asks for: libmimalloc.so -> libmimalloc.so.2 -> ...
  file(READ_SYMLINK ${MIMALLOC_LIBRARY} mimalloc_name)
  file(REAL_PATH ${MIMALLOC_LIBRARY} mimalloc_file)
  install(FILES ${mimalloc_file} DESTINATION lib RENAME ${mimalloc_name} COMPONENT python)
endif()
file(GLOB wheel_schemas CONFIGURE_DEPENDS schema/*.schema.json)
install(FILES ${wheel_schemas} DESTINATION schema COMPONENT python)
