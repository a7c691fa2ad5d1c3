# C++ modules: the object file that a user's program links in addition to the recorder's library, and libbacktrace.
#
# The interposed layers must be in the program itself, so that their symbols are found before LibTorch's. They are an
# object file, because a linker would take only some members of an archive.
add_library(whence_layers OBJECT recorder/native/layers.cpp)
target_link_libraries(whence_layers PRIVATE whence_torch)

# libbacktrace reads symbol tables and debug information; it comes with GCC. Without it, native frames have only exported
# names, and no lines.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES backtrace)
check_cxx_source_compiles("#include <backtrace.h>
int main() { return backtrace_create_state(nullptr, 0, nullptr, nullptr) == nullptr; }" HAVE_LIBBACKTRACE)
unset(CMAKE_REQUIRED_LIBRARIES)
if(HAVE_LIBBACKTRACE)
  target_compile_definitions(whence_recorder_native PRIVATE WHENCE_BACKTRACE)
  target_link_libraries(whence_recorder PRIVATE backtrace)
endif()
