#!/bin/sh
# packages.sh [STEP...]: installs the missing packages of these steps of packages.txt as root or with sudo; otherwise prints
# the command. Without a step: the packages for building and testing.
. "$(dirname "$0")/common.sh"

[ $# -gt 0 ] || set -- build speed test drawings

# Prints the packages of the steps, one per line.
packages_of() {
  for step_name; do
    awk -v step="$step_name" '$1 == step { print $3 }' tools/setup/packages.txt
  done
}

if ! command -v dpkg-query >/dev/null; then
  # shellcheck disable=SC2046  # splits into words on purpose
  step "not a Debian system; this needs the equivalents of:" $(packages_of "$@")
  exit 0
fi

# Succeeds if the package is installed, for this machine's architecture or the one in the name (:arm64).
is_installed() {
  case $1 in
    *:*) architecture=${1#*:} ;;
    *) architecture=$(dpkg --print-architecture) ;;
  esac
  dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null | grep -qE "^($architecture|all) installed$"
}

missing= optional=
for name in $(packages_of "$@"); do
  is_installed "$name" && continue
  case " $(packages_of drawings | tr '\n' ' ')" in
    *" $name "*) optional="$optional $name" ;;  # Ubuntu has no package for the browser
    *) missing="$missing $name" ;;
  esac
done
[ -n "$missing$optional" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=sudo
elif [ -z "$missing" ]; then
  step "tests of drawings are skipped; packages not installed:$optional"
  exit 0
else
  fail "missing Debian packages; as root run: apt-get install -y$missing"
fi
export DEBIAN_FRONTEND=noninteractive
step "installing Debian packages:$missing$optional"
case $missing in
  *:arm64*) quietly "dpkg --add-architecture" $as_root dpkg --add-architecture arm64 ;;
esac
quietly "apt-get update" $as_root apt-get update -q
# shellcheck disable=SC2086  # splits the lists into words on purpose
[ -z "$missing" ] || quietly "apt-get install" $as_root apt-get install -y -q --no-install-recommends $missing
for package in $optional; do
  $as_root apt-get install -y -q --no-install-recommends "$package" >/dev/null 2>&1 ||
    step "package $package is not available: tests that need it are skipped"
done
