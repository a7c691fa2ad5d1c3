# Defines WHENCE_RECORDER_ABI, a digest of the shared headers. The command and the recorder library exchange plain C++
# structures, so both must be built from the same headers; the digests are compared when the library is loaded.
file(GLOB_RECURSE shared_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/schema/*.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shared_headers})
set(digests "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
foreach(header IN LISTS shared_headers)
  file(SHA256 ${header} digest)
  string(APPEND digests " ${digest}")
endforeach()
string(SHA256 WHENCE_RECORDER_ABI "${digests}")
configure_file(${CMAKE_SOURCE_DIR}/tools/cmake/recorder_abi.h.in ${CMAKE_BINARY_DIR}/generated/recorder_abi.h)
