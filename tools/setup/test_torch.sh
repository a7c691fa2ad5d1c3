#!/bin/sh
# test_torch.sh VERSION: the recorder built for another PyTorch, in build/torch-VERSION, and the tests in which a PyTorch
# runs: live recording, recorded archives, LibTorch's operators, and the files of every version.
. "$(dirname "$0")/common.sh"

version=$1
[ -n "$version" ] || fail "which PyTorch? make test-torch VERSION=2.15.0"
folder=build/torch-$version
python=$folder/venv/bin/python
install() {
  quietly "pip install $*" $python -m pip install --disable-pip-version-check -q "$@"
}

if [ ! -x $python ]; then
  step "making the virtual environment $folder/venv"
  quietly "python3 -m venv" build/venv/bin/python -m venv "$folder/venv"
fi
{
  echo "torch==$version"
  grep -E '^(numpy|onnx|onnxruntime|onnxscript|pytest|pytest-xdist|jsonschema|safetensors|transformers|xxhash)==' \
    tools/setup/requirements.txt
} >"$folder/requirements.txt"
missing=$($python tools/setup/missing.py "$folder/requirements.txt")
if [ -n "$missing" ]; then
  step "installing into $folder/venv: $missing"
  # shellcheck disable=SC2086
  install $missing
fi

step "building $folder/build"
torch=$($python -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])")
# shellcheck disable=SC2046  # words on purpose
quietly "configuring" build/venv/bin/cmake --preset release -B "$folder/build" $(build_options) -DTORCH_DIR="$torch" \
  ${ONNX_ROOT:+"-DONNX_ROOT=$ONNX_ROOT"}
quietly "building" build/venv/bin/cmake --build "$folder/build" --target whence_recorder recorder_tests

step "testing with PyTorch $version"
# The command knows no PyTorch, so that of `make build` does with any.
export WHENCE_TORCH_DIR="$torch"
export WHENCE_RECORDER="$root/$folder/build/lib/libwhence_recorder.so"
export WHENCE_PLUGIN="$WHENCE_RECORDER"
"$folder/build/bin/recorder_tests" --gtest_brief=1
exec $python -m pytest tests/live_python tests/record tests/torch_versions -q -n 2 </dev/null
