#!/bin/sh
# Runs every test: C++ programs with ctest, and pytest at the same time. pytest's summary line comes last.
# With MATRIX=SHARD/OF, also runs this shard of the tests marked matrix.
. "$(dirname "$0")/common.sh"

programs() {
  output=$(build/venv/bin/ctest --test-dir build --output-on-failure --timeout 1800 2>&1) && code=0 || code=$?
  printf '\n%s\n' "$output"  # in one piece, because pytest also prints
  return "$code"
}

PYTHONPATH=tests quietly "building programs against an installed whence" build/venv/bin/python -m native.built
[ -z "${MATRIX:-}" ] || step "including shard $MATRIX of the test matrix"
programs &
build/venv/bin/python -m pytest tests -q -n auto --dist loadgroup ${MATRIX:+--matrix "$MATRIX"} </dev/null && passed=true || passed=false
wait "$!" || fail "a C++ program failed (its output is above)"
"$passed"
