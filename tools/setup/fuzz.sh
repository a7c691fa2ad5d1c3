#!/bin/sh
# fuzz.sh SECONDS [TARGET,...]: builds the targets of tests/fuzz with clang 19 in build/fuzz, and runs each so long.
. "$(dirname "$0")/common.sh"

seconds=${1:-60}
if ! command -v clang++-19 >/dev/null || ! ls /usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-x86_64.a >/dev/null 2>&1; then
  packages="clang-19 libclang-rt-19-dev"
  [ "$(id -u)" = 0 ] || fail "as root run: apt-get install -y $packages"
  step "installing Debian packages: $packages"
  quietly "apt-get update" apt-get update -q
  # shellcheck disable=SC2086
  quietly "apt-get install" apt-get install -y -q --no-install-recommends $packages
fi
tools/setup/build.sh fuzz whence whence_fuzz
step "seeds (build/fuzz/seeds)"
quietly "making the seeds" build/venv/bin/python tests/fuzz/make_seeds.py build/fuzz/seeds build/fuzz/bin/whence
step "every target for $seconds s"
exec build/venv/bin/python tests/fuzz/fuzz.py --seconds "$seconds" ${2:+--targets "$2"}
