#!/bin/sh
# Every test: the C++ programs through ctest, beside the command through pytest, whose closing line comes last.
. "$(dirname "$0")/common.sh"

programs() {
  said=$(build/venv/bin/ctest --test-dir build --output-on-failure --timeout 1800 2>&1) && code=0 || code=$?
  printf '\n%s\n' "$said"  # at once: pytest goes on writing meanwhile
  return "$code"
}

programs &
build/venv/bin/python -m pytest tests -q -n auto --dist loadgroup </dev/null && passed=true || passed=false
wait "$!" || fail "a C++ program failed (its output is above)"
"$passed"
