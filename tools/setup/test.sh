#!/bin/sh
# Every test: the C++ programs through ctest, beside the command through pytest, whose closing line comes last.
# With MATRIX=SHARD/OF also that shard of the tests that are marked matrix.
. "$(dirname "$0")/common.sh"

programs() {
  said=$(build/venv/bin/ctest --test-dir build --output-on-failure --timeout 1800 2>&1) && code=0 || code=$?
  printf '\n%s\n' "$said"  # at once: pytest goes on writing meanwhile
  return "$code"
}

PYTHONPATH=tests quietly "building programs against an installed whence" build/venv/bin/python -m native.built
[ -z "${MATRIX:-}" ] || step "with shard $MATRIX of the test matrix"
programs &
build/venv/bin/python -m pytest tests -q -n auto --dist loadgroup ${MATRIX:+--matrix "$MATRIX"} </dev/null && passed=true || passed=false
wait "$!" || fail "a C++ program failed (its output is above)"
"$passed"
