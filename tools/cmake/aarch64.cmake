# A toolchain file: compiles for Linux on aarch64 with Debian's cross compiler and its arm64 libraries
# (tools/setup/packages.txt lists the packages). Programs that run during the build, such as protoc, are this machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Keeps pkg-config, which some CMake modules call first, from returning this machine's libraries.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
# Runs built programs in tests without binfmt.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
