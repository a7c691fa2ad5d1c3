"""Writes ONNX files for the tests of views, with many nodes in many modules, or with hostile names."""

import onnx
from onnx import TensorProto, helper

HOSTILE = ["</script><script>document.title='owned'</script>", "<!--<script>", "<img src=x onerror=alert(1)>",
           "a\u2028b\u2029c", "tab\there\nnew\x00nul\x1bescape", "\u202egnp.exe", "\"quoted\\ & 'single'",
           "]]>&amp;<x/>",
           "`tick` | pipe @somebody", "{{script}}{{data}}", "; rm -rf /", "\U0001f600 ünï"]


def add_keys(node, **keys) -> None:
    for key, value in keys.items():
        node.metadata_props.add(key=f"pkg.whence.{key}", value=value)


def save(nodes: list, path, shape=(4, 4)):
    result = nodes[-1].output[0]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def layers(count: int, path):
    """Writes `count` nodes in layers of twenty: layers.N.attn, layers.N.mlp. Each node reads up to two earlier ones."""
    nodes = []
    for i in range(count):
        layer, position = divmod(i, 20)
        op = ["MatMul", "Add", "Relu", "Mul"][position % 4]
        inputs = [f"v{i - 1}" if i else "x", f"v{i - 7}" if i > 7 else "x"][:1 if op == "Relu" else 2]
        part = "attn" if position < 10 else "mlp"
        node = helper.make_node(op, inputs, [f"v{i}"], name=f"/layers.{layer}/{part}/{op}_{i}")
        confidence = "unattributed" if i % 50 == 49 else "inferred" if i % 10 == 9 else "exact"
        add_keys(node, confidence=confidence, rule="structure", source=f"model.py:{10 + position} forward", call="0")
        if confidence != "unattributed":
            add_keys(node, module=f"layers.{layer}.{part}")
        nodes.append(node)
    return save(nodes, path)


def hostile(path):
    """Writes a chain of nodes with names, modules and metadata from HOSTILE."""
    nodes, value = [], "x"
    for name in HOSTILE:
        relu = helper.make_node("Relu", [value], [f"{name} value"], name=name)
        add_keys(relu, module=f"outer.{name.replace('.', '')}", confidence="exact", source=name, rule=name)
        nodes.append(relu)
        value = f"{name} value"
    return save(nodes, path)


def keys_of(node: onnx.NodeProto) -> dict:
    return {entry.key: entry.value for entry in node.metadata_props}
