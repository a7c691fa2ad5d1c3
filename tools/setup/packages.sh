#!/bin/sh
# The Debian packages that building and testing need. Installs what is missing when root or sudo is there, else says how.
. "$(dirname "$0")/common.sh"

packages="g++ ninja-build ccache mold binutils python3-venv python3-dev
  protobuf-compiler libprotobuf-dev libboost-program-options-dev nlohmann-json3-dev
  robin-map-dev libxxhash-dev zlib1g-dev libexpat1-dev libmimalloc-dev libgtest-dev libonnx-testdata"
# For tests of what whence draws, which are skipped without: Ubuntu has no package of the browser.
drawings="chromium chromium-driver graphviz"

if ! command -v dpkg-query >/dev/null; then
  step "not a Debian system; the build needs the equivalents of:" $packages
  exit 0
fi

# Prints those of its arguments that are not installed packages.
missing_of() {
  for package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || printf ' %s' "$package"
  done
}
# shellcheck disable=SC2086  # the lists are words on purpose
missing=$(missing_of $packages) missing_drawings=$(missing_of $drawings)
[ -n "$missing$missing_drawings" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=sudo
elif [ -z "$missing" ]; then
  step "not installed, tests of drawings are skipped:$missing_drawings"
  exit 0
else
  fail "missing Debian packages; as root run: apt-get install -y$missing"
fi
export DEBIAN_FRONTEND=noninteractive
step "installing Debian packages:$missing$missing_drawings"
quietly "apt-get update" $as_root apt-get update -q
# shellcheck disable=SC2086
[ -z "$missing" ] || quietly "apt-get install" $as_root apt-get install -y -q --no-install-recommends $missing
for package in $missing_drawings; do
  $as_root apt-get install -y -q --no-install-recommends "$package" >/dev/null 2>&1 ||
    step "no package $package here: tests that need it are skipped"
done
