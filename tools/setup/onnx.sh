#!/bin/sh
# onnx.sh [ARCHITECTURE]: ONNX C++ from its PyPI source, built once into the user's cache, for another processor with
# tools/cmake/ARCHITECTURE.cmake. ONNX_ROOT names another installation for this one.
# PYTHON (with pip) and CMAKE take the place of those of build/venv, for a wheel's build.
. "$(dirname "$0")/common.sh"

version=1.23.2
digest=008cb0467b2bbee41448acc7da8b6f4e704624cb0d327a2d5adafc7ce19bc5b8
for_other=${1:+-$1}
[ -z "$for_other" ] || ONNX_ROOT=
target=${ONNX_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/whence/onnx-$version$for_other}
# Built by this very script, unless the user names an installation.
recipe=$(cksum <tools/setup/onnx.sh)
ready() {
  [ -f "$target/lib/cmake/ONNX/ONNXConfig.cmake" ] &&
    { [ -n "${ONNX_ROOT:-}" ] || [ "$(cat "$target.recipe" 2>/dev/null)" = "$recipe" ]; }
}

if ready; then exit 0; fi
if [ -n "${ONNX_ROOT:-}" ]; then
  fail "no ONNX C++ in ONNX_ROOT=$ONNX_ROOT (lib/cmake/ONNX/ONNXConfig.cmake is looked for): correct it, or unset it to have $version built"
fi

mkdir -p "$(dirname "$target")"
exec 9>"$target.lock"
flock 9 # another process may be building the same
if ready; then exit 0; fi

step "building ONNX C++ $version into $target (some minutes, once)"
work=$(mktemp -d "$target.build.XXXXXX")
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-$root/build/venv/bin/python}
cmake=${CMAKE:-$root/build/venv/bin/cmake}
echo "onnx==$version --hash=sha256:$digest" >"$work/requirements.txt"
quietly "downloading the source of onnx $version (needs the network; or set ONNX_ROOT)" \
  "$python" -m pip download --disable-pip-version-check -q --no-deps --no-binary onnx --require-hashes -d "$work" \
  -r "$work/requirements.txt"
tar -xzf "$work/onnx-$version.tar.gz" -C "$work"
launcher=
if command -v ccache >/dev/null; then launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
[ -z "$for_other" ] || launcher="$launcher -DCMAKE_TOOLCHAIN_FILE=$root/tools/cmake/$1.cmake"
quietly "configuring ONNX C++" "$cmake" -G Ninja -S "$work/onnx-$version" -B "$work/build" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$work/installed" -DCMAKE_INSTALL_LIBDIR=lib \
  -DCMAKE_CXX_FLAGS="-ffile-prefix-map=$work/=" \
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_STANDARD=20 -DONNX_ML=ON -DONNX_USE_PROTOBUF_SHARED_LIBS=ON \
  -DONNX_USE_UNITY_BUILD=ON -DPython3_EXECUTABLE="$(command -v "$python")" $launcher # unity: a third of the time
quietly "building ONNX C++" "$cmake" --build "$work/build" --target install
# Renamed into place as a whole, so that an installation that is there is complete.
rm -rf "$target"
mv "$work/installed" "$target"
echo "$recipe" >"$target.recipe"
