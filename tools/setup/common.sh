# Sourced by the set-up scripts: functions that print one line for each step and log other output. Changes the folder to
# the repository's root.
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

# quietly "description" command...: runs the command with its output in the log. Prints the end of the log if it fails.
quietly() {
  what=$1
  shift
  if ! "$@" </dev/null >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    fail "$what failed (full log: $log)"
  fi
}

# Prints CMake options for installed tools and libraries that make the build or the command faster. WERROR=1, which CI
# sets, makes warnings errors.
build_options() {
  if command -v ccache >/dev/null; then printf ' -DWHENCE_CCACHE=ON'; fi
  if command -v mold >/dev/null; then printf ' -DWHENCE_MOLD=ON'; fi
  if has_library -lmimalloc; then printf ' -DWHENCE_ALLOCATOR=mimalloc'; fi
  if has_library -lgtest; then printf ' -DWHENCE_TESTS=ON'; else printf ' -DWHENCE_TESTS=OFF'; fi  # `make demo` skips it
  if has_library -l:libtcmalloc_minimal.a; then printf ' -DWHENCE_STATIC_ALLOCATOR=tcmalloc_minimal'; fi
  if [ -n "${WERROR:-}" ]; then printf ' -DWHENCE_WERROR=ON'; else printf ' -DWHENCE_WERROR=OFF'; fi
}

# has_library -lNAME: succeeds if the linker finds the library.
has_library() {
  printf 'int main() {}' | c++ -x c++ - -o /dev/null "$1" 2>/dev/null
}
