#!/bin/sh
# The wheel whence-onnx in build/wheels: links the fully static command, tries the wheel where nothing else is installed, and
# prints its size and the seconds from pip install to the report of an annotated foreign model.
. "$(dirname "$0")/common.sh"

tools/setup/packages.sh wheel
tools/setup/build.sh release whence_static
python=build/venv/bin/python
wheel=$($python tools/setup/wheel.py build/static/whence "$(uname -m)" build/wheels)
step "made $wheel ($(wc -c <"$wheel") bytes)"

PYTHONPATH=tests:python $python tools/setup/try_wheel.py "$wheel"

tools/setup/tool_environments.sh auditwheel
WHENCE_WHEEL="$root/$wheel" $python -m pytest tests/python/test_wheel.py -q --matrix 1/1 -n0 </dev/null
