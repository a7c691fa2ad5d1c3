#!/bin/sh
# build.sh PRESET [TARGET...]: configures and builds the targets, or everything. Quiet unless something fails or standard
# output is a terminal.
. "$(dirname "$0")/common.sh"

preset=$1
shift
folder=build
[ "$preset" = release ] || folder=build/$preset
options=$(build_options)
# Options for this machine's libraries do not apply to another machine.
if [ "$preset" = aarch64 ]; then options=$(build_options | grep -o -- '-DWHENCE_CCACHE=ON\|-DWHENCE_WERROR=[A-Z]*'); fi
cmake=$root/build/venv/bin/cmake

# Passes all options each time; otherwise CMake would keep earlier values.
# shellcheck disable=SC2086  # splits into words on purpose
quietly "configuring" "$cmake" --preset "$preset" $options \
  ${TORCH_DIR:+"-DTORCH_DIR=$TORCH_DIR"} ${ONNX_ROOT:+"-DONNX_ROOT=$ONNX_ROOT"}
step "building $folder"
set -- --build "$folder" ${1:+--target "$@"}
if [ -t 1 ]; then
  "$cmake" "$@"
else
  quietly "building" "$cmake" "$@"
fi
