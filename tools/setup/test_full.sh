#!/bin/sh
# Runs all shards of the tests marked matrix, including tests in environments of other tools. pytest's summary line comes
# last.
. "$(dirname "$0")/common.sh"

tools/setup/tool_environments.sh
exec build/venv/bin/python -m pytest tests -q -n auto -m matrix --matrix 1/1 </dev/null
