#!/bin/sh
# The Debian packages that building and testing need. Installs what is missing when root or sudo is there, else says how.
. "$(dirname "$0")/common.sh"

packages="g++ ninja-build ccache mold binutils python3-venv python3-dev
  protobuf-compiler libprotobuf-dev libboost-program-options-dev nlohmann-json3-dev
  libre2-dev libxxhash-dev libzip-dev libgtest-dev libonnx-testdata
  chromium chromium-driver graphviz"

if ! command -v dpkg-query >/dev/null; then
  step "not a Debian system; the build needs the equivalents of:" $packages
  exit 0
fi

# shellcheck disable=SC2086  # the list is words on purpose
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $packages 2>/dev/null | sed -n 's/^installed //p')
missing=
for package in $packages; do
  case "
$installed
" in
    *"
$package
"*) ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  as_root=sudo
else
  fail "missing Debian packages; as root run: apt-get install -y$missing"
fi
step "installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
quietly "apt-get update" $as_root apt-get update -q
# shellcheck disable=SC2086
quietly "apt-get install" $as_root apt-get install -y -q --no-install-recommends $missing
