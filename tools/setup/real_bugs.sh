#!/bin/sh
# real_bugs.sh [NAME...]: makes the files of real bugs of other tools with the versions that have them, and writes a table
# of what whence and other tools say about them: tests/real_bugs. Needs some GB for environments the first time.
. "$(dirname "$0")/common.sh"

step "real bugs, in build/real_bugs"
exec build/venv/bin/python tests/real_bugs/run.py "$@"
