#!/bin/sh
# build.sh PRESET [TARGET...]: configures and builds, everything without a target. Quiet unless something fails or a
# person watches.
. "$(dirname "$0")/common.sh"

preset=$1
shift
folder=build
[ "$preset" = release ] || folder=build/$preset
cmake=$root/build/venv/bin/cmake

# Given again each time: CMake remembers the first answer otherwise.
# shellcheck disable=SC2046  # words on purpose
quietly "configuring" "$cmake" --preset "$preset" $(build_options) \
  ${TORCH_DIR:+"-DTORCH_DIR=$TORCH_DIR"} ${ONNX_ROOT:+"-DONNX_ROOT=$ONNX_ROOT"}
step "building $folder"
set -- --build "$folder" ${1:+--target "$@"}
if [ -t 1 ]; then
  "$cmake" "$@"
else
  quietly "building" "$cmake" "$@"
fi
