#!/bin/sh
# random.sh COUNT: exports COUNT random programs by every route and compares them with PyTorch, on all cores.
. "$(dirname "$0")/common.sh"

PYTHONPATH=tests quietly "building programs against an installed whence" build/venv/bin/python -m native.built
exec build/venv/bin/python tests/random/run_random.py --count "$1" --kinds --jobs "$(nproc)"
