#!/bin/sh
# install.sh PREFIX: installs the command, libraries, headers and CMake package.
. "$(dirname "$0")/common.sh"

quietly "installing to $1 (needs permission to write there)" build/venv/bin/cmake --install build --prefix "$1"
step "installed $1/bin/whence"
