#!/bin/sh
# fuzz.sh SECONDS [TARGET,...]: builds the targets of tests/fuzz in build/fuzz and runs each for SECONDS under libFuzzer.
. "$(dirname "$0")/common.sh"

tools/setup/clang.sh
tools/setup/build.sh fuzz whence whence_fuzz
step "making the seeds (build/fuzz/seeds)"
quietly "making the seeds" build/venv/bin/python tests/fuzz/make_seeds.py build/fuzz/seeds build/fuzz/bin/whence
step "running each target for ${1:-60} s"
exec build/venv/bin/python tests/fuzz/run_fuzzers.py --seconds "${1:-60}" ${2:+--targets "$2"}
