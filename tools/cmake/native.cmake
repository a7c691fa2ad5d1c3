# C++ modules: what a user's program links beside the recorder's library, and how the recorder names native frames.
#
# The interposed layers must stand in the program itself, before LibTorch in the order in which symbols are looked up: an
# object file, not an archive, of which a linker would take what it thinks is needed.
add_library(whence_layers OBJECT recorder/native/layers.cpp)
target_link_libraries(whence_layers PRIVATE whence_torch)

# libbacktrace reads symbol tables and debug information; it comes with GCC. Without it, native frames have the names
# that the program exports, and no lines.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES backtrace)
check_cxx_source_compiles("#include <backtrace.h>
int main() { return backtrace_create_state(nullptr, 0, nullptr, nullptr) == nullptr; }" HAVE_LIBBACKTRACE)
unset(CMAKE_REQUIRED_LIBRARIES)
if(HAVE_LIBBACKTRACE)
  target_compile_definitions(whence_recorder_native PRIVATE WHENCE_BACKTRACE)
  target_link_libraries(whence_recorder PRIVATE backtrace)
endif()
