#!/bin/sh
# attest.sh [--planted] [--refit] [--docs] [-v] [MODEL...]: measures `whence attest` and `whence refit` on files of many
# exporters and tools, whose checkpoint is at hand: tests/derivation/attest_corpus.py.
. "$(dirname "$0")/common.sh"

step "files of exporters and tools, in build/attest"
exec build/venv/bin/python tests/derivation/attest_corpus.py --jobs "${JOBS:-2}" "$@"
