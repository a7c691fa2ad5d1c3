#!/bin/sh
# test_torch.sh VERSION: builds the recorder for another PyTorch in build/torch-VERSION, and runs the tests that run
# PyTorch: live recording, recorded archives, LibTorch's operators, and files of every version.
. "$(dirname "$0")/common.sh"

version=$1
[ -n "$version" ] || fail "VERSION is missing; for example: make test-torch VERSION=2.15.0"
tools/setup/build_torch.sh "$version" whence_recorder recorder_tests
folder=build/torch-$version
python=$folder/venv/bin/python
torch=$($python -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])")

step "testing with PyTorch $version"
# The command does not link PyTorch, so the one from `make build` works with every version.
export WHENCE_TORCH_DIR="$torch"
export WHENCE_RECORDER="$root/$folder/build/lib/libwhence_recorder.so"
export WHENCE_PLUGIN="$WHENCE_RECORDER"
"$folder/build/bin/recorder_tests" --gtest_brief=1
exec $python -m pytest tests/live_python tests/record tests/torch_versions -q -n 2 </dev/null
