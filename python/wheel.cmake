# Installs the binaries that a wheel has besides the Python files, into whence/bin and whence/lib.
install(TARGETS whence RUNTIME DESTINATION bin COMPONENT python)
if(TARGET whence_recorder)
  install(TARGETS whence_recorder whence_recorder_entry LIBRARY DESTINATION lib COMPONENT python)
endif()
if(ALLOCATOR_LIBRARY)
  # Installs the library under the name that the command loads: libmimalloc.so -> libmimalloc.so.2 -> ...
  file(READ_SYMLINK ${ALLOCATOR_LIBRARY} allocator_name)
  file(REAL_PATH ${ALLOCATOR_LIBRARY} allocator_file)
  install(FILES ${allocator_file} DESTINATION lib RENAME ${allocator_name} COMPONENT python)
endif()
file(GLOB wheel_schemas CONFIGURE_DEPENDS schema/*.schema.json)
install(FILES ${wheel_schemas} DESTINATION schema COMPONENT python)
