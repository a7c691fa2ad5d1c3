#!/bin/sh
# Every test: the C++ programs through ctest, the command through pytest, whose closing line comes last.
. "$(dirname "$0")/common.sh"

build/venv/bin/ctest --test-dir build --output-on-failure --timeout 1800
exec build/venv/bin/python -m pytest tests -q -n auto </dev/null
