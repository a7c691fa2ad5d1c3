#!/bin/sh
# build_torch.sh VERSION TARGET...: builds for another PyTorch in build/torch-VERSION/build. Installs that PyTorch and the
# packages for its tests into build/torch-VERSION/venv.
. "$(dirname "$0")/common.sh"

version=$1
shift
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
# shellcheck disable=SC2046  # splits into words on purpose
quietly "configuring" build/venv/bin/cmake --preset release -B "$folder/build" $(build_options) -DTORCH_DIR="$torch" \
  ${ONNX_ROOT:+"-DONNX_ROOT=$ONNX_ROOT"}
quietly "building" build/venv/bin/cmake --build "$folder/build" --target "$@"
