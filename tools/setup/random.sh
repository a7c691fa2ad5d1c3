#!/bin/sh
# random.sh COUNT: so many random programs by every route, compared with PyTorch, on all cores.
. "$(dirname "$0")/common.sh"

PYTHONPATH=tests quietly "building programs against an installed whence" build/venv/bin/python -m native.built
exec build/venv/bin/python tests/random/run_random.py --count "$1" --kinds --jobs "$(nproc)"
