#!/bin/sh
# Checks the format and runs clang-tidy. To fix the format: clang-format -i FILE
. "$(dirname "$0")/common.sh"

# Uses clang-tidy-19: Debian 12's clang-tidy is version 14, which cannot compile the ranges of GCC 12's library.
for tool in clang-format clang-tidy-19; do
  command -v $tool >/dev/null || tools/setup/packages.sh lint
done
sources=$(git ls-files '*.cpp' '*.h')
step "clang-format"
# shellcheck disable=SC2086
clang-format --dry-run --Werror $sources || fail "to fix the format, run: clang-format -i \$(git ls-files '*.cpp' '*.h')"

# Uses a separate build folder: clang cannot read GCC's precompiled headers, and compiling each file by itself finds
# missing includes.
step "clang-tidy (some minutes)"
quietly "configuring build/lint" build/venv/bin/cmake --preset release -B build/lint -DWHENCE_WERROR=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DWHENCE_UNITY=OFF
units=$(git ls-files '*.cpp')
# shellcheck disable=SC2086
printf '%s\n' $units | xargs -P "$(nproc)" -n 4 clang-tidy-19 -p build/lint --quiet
step "lint: nothing found"
