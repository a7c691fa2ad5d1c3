#!/bin/sh
# build.sh PRESET: configures when needed and builds. Quiet unless something fails or a person watches.
. "$(dirname "$0")/common.sh"

preset=$1
folder=build
[ "$preset" = release ] || folder=build/$preset
cmake=$root/build/venv/bin/cmake

if [ ! -f "$folder/build.ninja" ]; then
  step "configuring $folder"
  quietly "configuring" "$cmake" --preset "$preset"
fi
step "building $folder"
if [ -t 1 ]; then
  "$cmake" --build "$folder"
else
  quietly "building" "$cmake" --build "$folder"
fi
