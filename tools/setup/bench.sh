#!/bin/sh
# Runs the benchmarks of tests/bench. Each prints its figures and how they were measured. If one misses its targets, the
# others still run.
. "$(dirname "$0")/common.sh"

missed=
for benchmark in side_by_side live_overhead export_scaling match_scaling million_nodes page_opening refit_large; do
  step "tests/bench/$benchmark.py"
  build/venv/bin/python "tests/bench/$benchmark.py" || missed="$missed $benchmark"
done
[ -z "$missed" ] || fail "benchmarks that failed or missed their targets:$missed"
