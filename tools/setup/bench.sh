#!/bin/sh
# The benchmarks of tests/bench: each prints its figures and how they were measured.
. "$(dirname "$0")/common.sh"

for benchmark in tests/bench/*.py; do
  [ "$benchmark" = tests/bench/large_model.py ] && continue  # makes the models of others
  step "$benchmark"
  build/venv/bin/python "$benchmark"
done
