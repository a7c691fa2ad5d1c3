#!/bin/sh
# Installs clang 19 with its sanitizers and libFuzzer, for `make fuzz` and `make test-sanitized`.
. "$(dirname "$0")/common.sh"

if command -v clang++-19 >/dev/null && [ -f "$(clang++-19 --print-file-name=libclang_rt.fuzzer-x86_64.a)" ]; then exit 0; fi
command -v apt-get >/dev/null || fail "clang 19 with libFuzzer is missing"
exec tools/setup/packages.sh clang
