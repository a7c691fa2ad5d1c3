#!/bin/sh
# Under the address and undefined-behaviour sanitizers, in build/asan and without LibTorch: the C++ tests, the inputs of
# tests/fuzz and thousands of changed ones, and the ONNX files of others.
. "$(dirname "$0")/common.sh"

tools/setup/build.sh asan
folder=build/asan
# A report is a signal to whoever runs the command: exit codes below 70 have a meaning.
export ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
step "C++ tests"
build/venv/bin/ctest --test-dir $folder --output-on-failure --timeout 1800
step "inputs of tests/fuzz, and changed ones"
WHENCE=$root/$folder/bin/whence FUZZ_MUTATIONS=200 build/venv/bin/python -m pytest tests/fuzz -q -n 2 </dev/null
step "ONNX files of others"
WHENCE=$root/$folder/bin/whence build/venv/bin/python -m pytest tests/foreign -q -n auto --dist loadgroup </dev/null
