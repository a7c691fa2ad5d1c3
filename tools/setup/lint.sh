#!/bin/sh
# Format and clang-tidy. A finding of the first is put right by: clang-format -i FILE
. "$(dirname "$0")/common.sh"

# clang 14, which Debian 12 calls clang-tidy, cannot read the ranges of GCC 12's library.
for tool in clang-format clang-tidy-19; do
  command -v $tool >/dev/null || tools/setup/packages.sh lint
done
sources=$(git ls-files '*.cpp' '*.h')
step "clang-format"
# shellcheck disable=SC2086
clang-format --dry-run --Werror $sources || fail "to put it right: clang-format -i \$(git ls-files '*.cpp' '*.h')"

# A folder of its own: clang cannot read the precompiled header that GCC writes, and every file is compiled by itself,
# which shows what it forgot to include.
step "clang-tidy (some minutes)"
quietly "configuring build/lint" build/venv/bin/cmake --preset release -B build/lint -DWHENCE_WERROR=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DWHENCE_UNITY=OFF
units=$(git ls-files '*.cpp')
# shellcheck disable=SC2086
printf '%s\n' $units | xargs -P "$(nproc)" -n 4 clang-tidy-19 -p build/lint --quiet
step "lint: nothing found"
