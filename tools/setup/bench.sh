#!/bin/sh
# The benchmarks of tests/bench: each prints its figures and how they were measured. One that misses its aims does not
# keep the others from running.
. "$(dirname "$0")/common.sh"

missed=
for benchmark in side_by_side live_overhead export_scaling match_scaling million_nodes page_opening; do
  step "tests/bench/$benchmark.py"
  build/venv/bin/python "tests/bench/$benchmark.py" || missed="$missed $benchmark"
done
[ -z "$missed" ] || fail "aims missed, or failed:$missed"
