# What goes into the wheel, beside the Python files: whence/bin, whence/lib and the version of PyTorch that it is built for.
install(TARGETS whence RUNTIME DESTINATION bin COMPONENT python)
if(TARGET whence_recorder)
  install(TARGETS whence_recorder LIBRARY DESTINATION lib COMPONENT python)
  file(WRITE ${CMAKE_BINARY_DIR}/generated/torch_version.txt "${torch_version}\n")
  install(FILES ${CMAKE_BINARY_DIR}/generated/torch_version.txt DESTINATION . COMPONENT python)
endif()
