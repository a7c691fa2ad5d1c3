#!/bin/sh
# Records, exports, annotates and validates a real model, then compares ONNX Runtime with PyTorch. `make demo` runs it.
set -eu
cd "$(dirname "$0")/../.."

out=build/demo
python=build/venv/bin/python
sample=samples/minilm

# run command...: prints the command, then runs it.
run() {
  printf '\n$ %s\n' "$*"
  "$@"
}
PATH=$PWD/build/bin:$PATH

run $python $sample/trace_minilm.py $out
run whence record $out/minilm.pt -o $out/minilm.whence.json --inputs $out/minilm_inputs.pt
run whence export $out/minilm.pt -o $out/minilm.plain.onnx --inputs $out/minilm_inputs.pt \
  --dynamic input_ids:0=batch,1=seq --dynamic attention_mask:0=batch,1=seq
run whence annotate $out/minilm.plain.onnx --sidecar $out/minilm.whence.json -o $out/minilm.onnx
run whence show $out/minilm.onnx --depth 4
run whence validate $out/minilm.onnx --sidecar $out/minilm.whence.json
run $python $sample/check_minilm.py $out/minilm.onnx
run whence report $out/minilm.onnx --sidecar $out/minilm.whence.json --size batch=2,seq=16 -o $out/minilm.html

printf '\nwritten:\n'
for file in minilm.pt minilm.whence.json minilm.plain.onnx minilm.onnx minilm.html; do
  printf '  %s\n' "$out/$file"
done
printf '\nnext: open %s in a browser; to try your own model, see docs/README.md\n' "$out/minilm.html"
