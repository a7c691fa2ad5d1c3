"""Fuses nodes with onnxscript's rewriter, with its own merger of metadata and with provenance.merge, and checks both."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx_ir as ir
from onnx import TensorProto, helper
from onnxscript.rewriter import _rewrite_rule, pattern

import provenance

WHENCE = os.environ.get("WHENCE", "whence")


class Merger:
    """Replaces onnxscript's MetadataMerger."""

    def copy_merged_metadata(self, old, new) -> None:
        for node in new:
            provenance.write(node, provenance.merge(list(old)[::-1]))  # onnxscript lists the last node first


def model(path: Path) -> None:
    """Writes a model of MatMul, Add and Relu, each in a module of its own."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product"), helper.make_node("Add", ["y", "b"], ["z"], "sum"),
             helper.make_node("Relu", ["z"], ["out"], "relu")]
    origins = [("block.fc", "matmul", "exact"), ("block.bias", "add", "matched"), ("", "relu", "exact")]
    for node, (module, operator, confidence) in zip(nodes, origins, strict=True):
        provenance.write(node, {"pkg.whence.module": module, "pkg.whence.id": f"{module}/0/{operator}/0",
                                "pkg.whence.confidence": confidence, "pkg.whence.call": "0"})
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
              for name, dims in (("x", [2, 3]), ("out", [2, 4]))}
    weights = [helper.make_tensor(name, TensorProto.FLOAT, dims, [1.0] * size)
               for name, dims, size in (("w", [3, 4], 12), ("b", [4], 4))]
    graph = helper.make_graph(nodes, "graph", [values["x"]], [values["out"]], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)


def fuse(before: Path, after: Path) -> None:
    rule = pattern.RewriteRule(lambda op, x, w, b: op.Add(op.MatMul(x, w), b), lambda op, x, w, b: op.Gemm(x, w, b))
    loaded = ir.load(before)
    pattern.RewriteRuleSet([rule]).apply_to_model(loaded)
    ir.save(loaded, after)


def conformance(before: Path, after: Path) -> int:
    command = [WHENCE, "validate", after, "--conformance", before, "--allow", "V101"]
    return subprocess.run(command, check=False).returncode


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    before = folder / "before.onnx"
    model(before)
    fuse(before, folder / "as_it_comes.onnx")
    _rewrite_rule._default_metadata_merger = Merger()
    fuse(before, folder / "adopted.onnx")
    codes = [conformance(before, folder / name) for name in ("as_it_comes.onnx", "adopted.onnx")]
    print(f"as it comes: exit code {codes[0]}; with merge: exit code {codes[1]}")
    return 0 if codes == [1, 0] else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
