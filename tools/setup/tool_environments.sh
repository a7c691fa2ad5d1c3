#!/bin/sh
# A virtual environment for each tool that reads what `whence select` writes, in build/tools: their pins exclude each
# other. What is there already is kept. None needs a GPU, or PyTorch.
. "$(dirname "$0")/common.sh"

# environment NAME requirement...: --no-deps among them holds for what follows it.
environment() {
  name=$1
  shift
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
environment nncf nncf==3.4.0 openvino==2026.4.0 onnx==1.23.2 onnxruntime==1.32.0
environment polygraphy polygraphy==0.53.6 onnx==1.23.2
environment graphsurgeon onnx-graphsurgeon==0.6.1 onnx==1.23.2
environment model-explorer ai-edge-model-explorer==0.1.34
# Loaded beside the packages of the project's own environment.
environment genai --no-deps onnxruntime-genai==0.18.0
# One function of modelopt is read, which needs none of what the package is built on.
environment modelopt --no-deps nvidia-modelopt==0.47.0
