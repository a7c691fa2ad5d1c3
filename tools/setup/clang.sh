#!/bin/sh
# clang 19 with its sanitizers and libFuzzer, for `make fuzz` and `make test-sanitized`. Installed when root or sudo is
# there and it is missing.
. "$(dirname "$0")/common.sh"

packages="clang-19 libclang-rt-19-dev"
if command -v clang++-19 >/dev/null && [ -f "$(clang++-19 --print-file-name=libclang_rt.fuzzer-x86_64.a)" ]; then exit 0; fi
command -v apt-get >/dev/null || fail "clang 19 with libFuzzer is missing; on Debian its packages are $packages"
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=sudo
else
  fail "as root run: apt-get install -y $packages"
fi
export DEBIAN_FRONTEND=noninteractive
step "installing Debian packages: $packages"
quietly "apt-get update" $as_root apt-get update -q
# shellcheck disable=SC2086
quietly "apt-get install" $as_root apt-get install -y -q --no-install-recommends $packages
