"""Functions that write ONNX files with one fault each, named after the fault.

tests/cli/broken_files.py writes empty and truncated files, and files that are not ONNX.
"""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])


def save(path: Path, nodes: list, initializers=(), functions=(), domains=("",)) -> Path:
    graph = helper.make_graph(nodes, "g", [X], [Y], list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, 18) for domain in domains],
                              functions=list(functions), ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def external(location: str, **spans) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **spans}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


ADD = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]


def missing_external_data(path: Path) -> Path:
    return save(path, ADD, [external("absent.bin")])


def short_external_data(path: Path) -> Path:
    (path.parent / "short.bin").write_bytes(b"\0" * 8)
    return save(path, ADD, [external("short.bin", offset=0, length=16)])


def external_data_outside(path: Path) -> Path:
    return save(path, ADD, [external("../outside.bin")])


def cyclic_graph(path: Path) -> Path:
    return save(path, [helper.make_node("Add", ["x", "b"], ["a"], name="one"),
                       helper.make_node("Relu", ["a"], ["b"], name="two"),
                       helper.make_node("Relu", ["b"], ["y"], name="three")])


def node_that_reads_itself(path: Path) -> Path:
    return save(path, [helper.make_node("Add", ["x", "y"], ["y"], name="self")])


def function_that_calls_itself(path: Path) -> Path:
    body = [helper.make_node("Again", ["a"], ["b"], name="inner", domain="own")]
    function = helper.make_function("own", "Again", ["a"], ["b"], body, [helper.make_opsetid("own", 18)])
    return save(path, [helper.make_node("Again", ["x"], ["y"], name="outer", domain="own")], functions=[function],
                domains=("", "own"))


def functions_that_call_each_other(path: Path) -> Path:
    functions = [helper.make_function("own", name, ["a"], ["b"],
                                      [helper.make_node(other, ["a"], ["b"], name="inner", domain="own")],
                                      [helper.make_opsetid("own", 18)])
                 for name, other in [("One", "Other"), ("Other", "One")]]
    return save(path, [helper.make_node("One", ["x"], ["y"], name="outer", domain="own")], functions=functions,
                domains=("", "own"))


def nested_ifs(path: Path, levels: int) -> Path:
    """Nests Ifs in branches of Ifs. The innermost branch reads a value of the main graph."""
    nodes = [helper.make_node("Relu", ["x"], ["y" if levels == 0 else "v0"], name="innermost")]
    for level in range(1, levels + 1):
        output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [2])
        branch = helper.make_graph(nodes, f"branch{level}", [], [output])
        negated = helper.make_tensor_value_info(f"n{level}", TensorProto.FLOAT, [2])
        other = helper.make_graph([helper.make_node("Neg", ["x"], [f"n{level}"], name=f"else{level}")],
                                  f"else{level}", [], [negated])
        nodes = [helper.make_node("If", ["c"], ["y" if level == levels else f"v{level}"], name=f"if{level}",
                                  then_branch=branch, else_branch=other)]
    return save(path, nodes, [helper.make_tensor("c", TensorProto.BOOL, [], [True])])


def ten_nested_ifs(path: Path) -> Path:
    return nested_ifs(path, 10)


def thousand_nested_ifs(path: Path) -> Path:
    """Nests deeper than readers allow. The bytes are written by hand, because protobuf refuses such a depth."""
    def field(number: int, payload: bytes) -> bytes:
        size, length = len(payload), b""
        while size >= 128:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + payload

    graph = b""
    for _ in range(1000):  # GraphProto.node = 1, NodeProto.op_type = 4, .attribute = 5, AttributeProto.name = 1, .g = 6
        graph = field(1, field(4, b"If") + field(5, field(1, b"then_branch") + field(6, graph)))
    path.write_bytes(b"\x08\x0a" + field(7, graph))
    return path


def control_characters(path: Path) -> Path:
    return save(path, [helper.make_node("Relu", ["x"], ["a\n\x1b[31m"], name="bell\x07\nE0101 forged: line"),
                       helper.make_node("Relu", ["a\n\x1b[31m"], ["y"], name="\x1b]0;title\x07")])


def invalid_utf8(path: Path) -> Path:
    save(path, [helper.make_node("Relu", ["x"], ["AAAA"], name="BBBB"), helper.make_node("Relu", ["AAAA"], ["y"])])
    path.write_bytes(path.read_bytes().replace(b"AAAA", b"\xff\xfe\x80A").replace(b"BBBB", b"\xc3\x28\xa0\xa1"))
    return path


def repeated_names(path: Path) -> Path:
    return save(path, [helper.make_node("Relu", ["x"], ["y"], name="same"),
                       helper.make_node("Relu", ["x"], ["y"], name="same")])


def value_without_producer(path: Path) -> Path:
    return save(path, [helper.make_node("Add", ["x", "nowhere"], ["y"], name="add")])


def no_nodes(path: Path) -> Path:
    return save(path, [])


# Function -> permitted exit codes of annotate, with 0 and 1 if the fault does not prevent annotation.
MODELS = {
    missing_external_data: {2, 3},
    short_external_data: {3},
    external_data_outside: {6},
    cyclic_graph: {3},
    node_that_reads_itself: {3},
    function_that_calls_itself: {3},
    functions_that_call_each_other: {3},
    ten_nested_ifs: {0, 1},
    thousand_nested_ifs: {3, 4},
    control_characters: {0, 1},
    invalid_utf8: {0, 1, 3},
    repeated_names: {0, 1, 3},
    value_without_producer: {0, 1, 3},
    no_nodes: {0, 1},
}
