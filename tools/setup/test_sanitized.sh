#!/bin/sh
# Runs with the address and undefined-behaviour sanitizers, in build/fuzz and without LibTorch: the C++ tests, the inputs of
# tests/fuzz with thousands of mutations, and third-party ONNX files.
. "$(dirname "$0")/common.sh"

tools/setup/clang.sh
tools/setup/build.sh fuzz
folder=build/fuzz
# A sanitizer's report aborts with a signal: its usual exit code 1 would look like findings of validate.
export ASAN_OPTIONS=abort_on_error=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1
step "C++ tests"
build/venv/bin/ctest --test-dir $folder --output-on-failure --timeout 1800
export WHENCE="$root/$folder/bin/whence"
step "inputs of tests/fuzz, with mutations"
FUZZ_MUTATIONS=${FUZZ_MUTATIONS:-200} build/venv/bin/python -m pytest tests/fuzz -q -n auto </dev/null
step "third-party ONNX files"
build/venv/bin/python -m pytest tests/foreign -q -n auto --dist loadgroup </dev/null
