#!/bin/sh
# Removes build outputs. Keeps the virtual environment and the cache of ONNX C++.
. "$(dirname "$0")/common.sh"

find build -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} +
