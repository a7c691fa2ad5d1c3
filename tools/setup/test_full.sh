#!/bin/sh
# The tests marked matrix, all shards of them, those in environments of other tools included; pytest's closing line comes
# last.
. "$(dirname "$0")/common.sh"

tools/setup/tool_environments.sh
exec build/venv/bin/python -m pytest tests -q -n auto -m matrix --matrix 1/1 </dev/null
