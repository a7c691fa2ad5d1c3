#!/bin/sh
# build.sh PRESET: configures and builds. Quiet unless something fails or a person watches.
. "$(dirname "$0")/common.sh"

preset=$1
folder=build
[ "$preset" = release ] || folder=build/$preset
cmake=$root/build/venv/bin/cmake

# Given again each time: CMake remembers the first answer otherwise.
quietly "configuring" "$cmake" --preset "$preset" \
  ${TORCH_DIR:+"-DTORCH_DIR=$TORCH_DIR"} ${ONNX_ROOT:+"-DONNX_ROOT=$ONNX_ROOT"}
step "building $folder"
if [ -t 1 ]; then
  "$cmake" --build "$folder"
else
  quietly "building" "$cmake" --build "$folder"
fi
