# Sourced by the set-up scripts: one line for each step, a log for the rest. Leaves the caller in the repository's root.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD
log=$root/build/setup.log
mkdir -p build

step() { printf 'whence: %s\n' "$*"; }

fail() {
  printf 'whence: %s\n' "$*" >&2
  exit 1
}

# quietly "what is being done" command...: output goes to the log, its end to the terminal when the command fails.
quietly() {
  what=$1
  shift
  if ! "$@" </dev/null >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail "$what failed (whole log: $log)"
  fi
}
