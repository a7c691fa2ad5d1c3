#!/bin/sh
# wheel.sh [aarch64]: makes the wheel whence-onnx in build/wheels. Links the fully static command, tries the wheel in an empty
# environment, and prints its size and the seconds from pip install to the report of a foreign model. For another processor,
# compiles the command for it and tries it under qemu.
. "$(dirname "$0")/common.sh"

python=build/venv/bin/python
if [ $# -gt 0 ]; then
  tools/setup/packages.sh "$1"
  tools/setup/onnx.sh "$1"
  tools/setup/build.sh "$1" whence_static
  wheel=$($python tools/setup/wheel.py "build/$1/static/whence" "$1" build/wheels)
  step "made $wheel ($(wc -c <"$wheel") bytes)"
  exec $python -m pytest tests/cross -q --matrix 1/1 -n0 </dev/null
fi

tools/setup/packages.sh wheel
tools/setup/build.sh release whence_static
wheel=$($python tools/setup/wheel.py build/static/whence "$(uname -m)" build/wheels)
step "made $wheel ($(wc -c <"$wheel") bytes)"

PYTHONPATH=tests:python $python tools/setup/try_wheel.py "$wheel"

tools/setup/tool_environments.sh auditwheel
WHENCE_WHEEL="$root/$wheel" $python -m pytest tests/python/test_wheel.py -q --matrix 1/1 -n0 </dev/null
