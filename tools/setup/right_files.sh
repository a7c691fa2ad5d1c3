#!/bin/sh
# right_files.sh [--docs] [MODEL...]: writes a thousand right files with other tools and counts those in which
# `whence accuracy` names a module: tests/right_files. --docs writes the table into docs/accuracy.md.
. "$(dirname "$0")/common.sh"

step "right files of other tools, in build/right_files"
exec build/venv/bin/python tests/right_files/run.py "$@"
