#!/bin/sh
# The first step of action.yml: installs the command unless it is already on PATH.
set -eu

if command -v whence >/dev/null; then
  whence --version
  exit 0
fi
python3 -m pip install --quiet --disable-pip-version-check "whence-onnx${WHENCE_VERSION:+==$WHENCE_VERSION}"
whence --version
