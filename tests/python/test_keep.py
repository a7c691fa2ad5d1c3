"""`whence.keep`: origins while onnxscript, onnx_ir and transformers edit a model in memory."""

import json
import subprocess
import sys
import threading

import numpy as np
import onnx_ir
import onnxruntime
import onnxscript
import pytest
import torch
from onnx_ir.passes import common
from onnxscript.rewriter import pattern

import command
import whence
from whence.annotation import node_origins

SCOPES = "pkg.torch.onnx.name_scopes"


def of_module(name: str) -> dict[str, str]:
    return {SCOPES: repr(["", name, "call"])}


def annotated(name: str, operation: int) -> dict[str, str]:
    return {"pkg.whence.module": name, "pkg.whence.confidence": "exact", "pkg.whence.op": str(operation),
            "pkg.whence.id": f"{name}/0/op/0"}


def chain(*steps: tuple[str, dict[str, str]]) -> onnx_ir.Model:
    """Returns a model that applies unary operators one after the other, each with its metadata."""
    x = onnx_ir.Value(name="x", shape=onnx_ir.Shape([2, 3]), type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT))
    value, nodes = x, []
    for number, (op_type, metadata) in enumerate(steps):
        node = onnx_ir.node(op_type, [value], name=f"n{number}")
        node.metadata_props.update(metadata)
        value = node.outputs[0]
        value.name, value.shape, value.type = f"v{number}", x.shape, x.type
        nodes.append(node)
    graph = onnx_ir.Graph([x], [value], nodes=nodes, opset_imports={"": 18}, name="chain")
    return onnx_ir.Model(graph, ir_version=10)


def softplus_of_abs() -> pattern.RewriteRule:
    return pattern.RewriteRule(lambda op, x: op.Softplus(op.Abs(x)), lambda op, x: op.Fused(x, _domain="tool"))


@pytest.mark.parametrize("metadata", ["of the exporter", "of whence"])
def test_node_of_a_rewrite_rule_has_all_modules(metadata):
    keys = of_module if metadata == "of the exporter" else lambda name: annotated(name, ord(name))
    model = chain(("Relu", keys("a")), ("Abs", keys("b")), ("Softplus", keys("c")), ("Tanh", keys("d")))
    with whence.keep() as report:
        assert softplus_of_abs().apply_to_model(model) == 1
    fused = next(node for node in model.graph if node.op_type == "Fused").metadata_props
    assert json.loads(fused["pkg.whence.modules"]) == ["b", "c"] and fused["pkg.whence.module"] == ""
    assert fused["pkg.whence.primary"] == "c" and fused["pkg.whence.operator"] == "tool::Fused"
    if metadata == "of whence":
        assert fused["pkg.whence.confidence"] == "matched" and fused["pkg.whence.op"] == "fused:98,99"
        assert json.loads(fused["pkg.whence.id"]) == ["b/0/op/0", "c/0/op/0"]
    else:
        assert fused["pkg.whence.confidence"] == "inferred" and fused[SCOPES] == of_module("c")[SCOPES]
    assert (report.replaced, report.lost) == (1, [])
    assert "1 node replaced others" in str(report)


def test_node_is_no_surer_than_what_it_replaced():
    """One of the replaced nodes has no origin, so its module may be missing in the list."""
    for unknown in ({}, {"pkg.whence.confidence": "unattributed"}):
        model = chain(("Abs", unknown), ("Softplus", annotated("c", 3)))
        with whence.keep():
            softplus_of_abs().apply_to_model(model)
        fused = next(iter(model.graph)).metadata_props
        assert (fused["pkg.whence.module"], fused["pkg.whence.confidence"]) == ("c", "inferred")


def test_helper_of_several_operations_stays_one():
    model = chain(("Abs", annotated("b", 1) | {"pkg.whence.op": "shared:1,2"}),
                  ("Softplus", annotated("b", 2) | {"pkg.whence.op": "shared:2,4"}))
    with whence.keep():
        softplus_of_abs().apply_to_model(model)
    assert next(iter(model.graph)).metadata_props["pkg.whence.op"] == "shared:1,2,4"


def test_without_keep_the_rewriter_keeps_one_module():
    model = chain(("Abs", of_module("b")), ("Softplus", of_module("c")))
    softplus_of_abs().apply_to_model(model)
    [fused] = model.graph
    assert fused.metadata_props[SCOPES] in (of_module("b")[SCOPES], of_module("c")[SCOPES])
    assert not any(key.startswith("pkg.whence") for key in fused.metadata_props)


def test_nodes_of_one_module_get_only_the_exporters_keys():
    model = chain(("Abs", of_module("b")), ("Softplus", of_module("b")))
    with whence.keep():
        softplus_of_abs().apply_to_model(model)
    keys = next(iter(model.graph)).metadata_props
    assert keys[SCOPES] == of_module("b")[SCOPES] and not any(key.startswith("pkg.whence") for key in keys)


def test_edits_by_hand_are_observed():
    """As in transformers: nodes are inserted, their result replaces another, and the old nodes are removed later."""
    model = chain(("Relu", of_module("a")), ("Abs", of_module("b")), ("Softplus", of_module("c")), ("Tanh", of_module("d")))
    relu, absolute, softplus, _ = model.graph
    with whence.keep() as report:
        first = onnx_ir.node("Neg", [relu.outputs[0]], name="first")
        second = onnx_ir.node("Exp", [first.outputs[0]], name="second")
        model.graph.insert_before(softplus, [first, second])
        softplus.outputs[0].replace_all_uses_with(second.outputs[0])
        common.RemoveUnusedNodesPass()(model)
    assert [node.op_type for node in model.graph] == ["Relu", "Neg", "Exp", "Tanh"]
    for node in (first, second):
        assert json.loads(node.metadata_props["pkg.whence.modules"]) == ["b", "c"]
    assert report.replaced == 2
    assert absolute.graph is None


def test_a_fused_node_that_is_divided_again():
    """As in transformers' FusedMatMul, which not all of its runtimes have."""
    model = chain(("Relu", of_module("a")), ("MatMul", of_module("b")), ("Abs", of_module("c")), ("Tanh", of_module("d")))
    relu, _, absolute, _ = model.graph
    with whence.keep():
        fused = onnx_ir.node("FusedMatMul", [relu.outputs[0]], domain="com.microsoft")
        model.graph.insert_before(absolute, fused)
        absolute.outputs[0].replace_all_uses_with(fused.outputs[0])
        product = onnx_ir.node("MatMul", [relu.outputs[0]])
        scaled = onnx_ir.node("Mul", [product.outputs[0], product.outputs[0]])
        model.graph.insert_before(fused, [product, scaled])
        fused.outputs[0].replace_all_uses_with(scaled.outputs[0])
    assert [node.metadata_props["pkg.whence.primary"] for node in (fused, product, scaled)] == ["b", "b", "c"]
    for node in (fused, product, scaled):
        assert json.loads(node.metadata_props["pkg.whence.modules"]) == ["b", "c"]


def test_a_node_that_is_computed_again_is_replaced_also_if_others_read_it():
    model = chain(("Relu", of_module("a")), ("Abs", of_module("b")), ("Softplus", of_module("c")))
    relu, absolute, softplus = model.graph
    other = onnx_ir.node("Exp", [absolute.outputs[0]])
    other.metadata_props.update(of_module("d"))
    model.graph.append(other)
    model.graph.outputs.append(other.outputs[0])
    with whence.keep():
        fused = onnx_ir.node("Fused", [relu.outputs[0]], domain="tool")
        model.graph.insert_before(softplus, fused)
        softplus.outputs[0].replace_all_uses_with(fused.outputs[0], replace_graph_outputs=True)
    assert json.loads(fused.metadata_props["pkg.whence.modules"]) == ["b", "c"]
    assert absolute.metadata_props == of_module("b")


def test_nodes_that_change_places_keep_their_modules():
    model = chain(("Relu", of_module("a")), ("Neg", of_module("b")), ("Exp", of_module("c")))
    with whence.keep():
        assert pattern.RewriteRule(lambda op, x: op.Neg(op.Relu(x)), lambda op, x: op.Relu(op.Neg(x))).apply_to_model(model) == 1
    assert [(node.op_type, node.metadata_props[SCOPES]) for node in model.graph] == [
        (op_type, of_module(module)[SCOPES]) for op_type, module in (("Neg", "b"), ("Relu", "a"), ("Exp", "c"))]


def test_node_that_is_left_out_passes_its_module_to_no_other():
    model = chain(("Relu", of_module("a")), ("Identity", of_module("b")), ("Tanh", of_module("c")))
    with whence.keep():
        common.IdentityEliminationPass()(model)
    assert [(node.op_type, node.metadata_props) for node in model.graph] == [("Relu", of_module("a")), ("Tanh", of_module("c"))]


def test_equal_nodes_that_are_merged_have_both_modules():
    model = chain(("Relu", of_module("a")), ("Tanh", of_module("b")))
    relu, tanh = model.graph
    other = onnx_ir.node("Relu", [model.graph.inputs[0]])
    other.metadata_props.update(of_module("c"))
    total = onnx_ir.node("Add", [tanh.outputs[0], other.outputs[0]])
    total.metadata_props.update(of_module("d"))
    model.graph.extend([other, total])
    model.graph.outputs[0] = total.outputs[0]
    with whence.keep() as report:
        common.CommonSubexpressionEliminationPass()(model)
    assert sorted(json.loads(relu.metadata_props["pkg.whence.modules"])) == ["a", "c"] and report.merged == 1
    assert relu.metadata_props["pkg.whence.primary"] == ""  # it belongs to both
    assert tanh.metadata_props == of_module("b")


def test_inserted_node_has_the_module_of_its_reader():
    model = chain(("Relu", of_module("a")), ("Tanh", of_module("b")))
    relu, tanh = model.graph
    with whence.keep() as report:
        cast = onnx_ir.node("Cast", [relu.outputs[0]], {"to": 1})
        model.graph.insert_before(tanh, cast)
        tanh.replace_input_with(0, cast.outputs[0])
    assert cast.metadata_props["pkg.whence.module"] == "b"
    assert cast.metadata_props["pkg.whence.confidence"] == "inferred" and report.by_neighbours == 1


def test_inserted_node_is_no_surer_than_its_reader():
    model = chain(("Relu", annotated("a", 0)), ("Tanh", annotated("b", 1) | {"pkg.whence.confidence": "ancestor"}))
    relu, tanh = model.graph
    with whence.keep():
        cast = onnx_ir.node("Cast", [relu.outputs[0]], {"to": 1})
        model.graph.insert_before(tanh, cast)
        tanh.replace_input_with(0, cast.outputs[0])
    assert (cast.metadata_props["pkg.whence.module"], cast.metadata_props["pkg.whence.confidence"]) == ("b", "ancestor")


def test_only_the_given_model_is_observed():
    models = [chain(("Abs", of_module("b")), ("Softplus", of_module("c"))) for _ in range(2)]
    with whence.keep(models[0]) as report:
        for model in models:
            softplus_of_abs().apply_to_model(model)
    kept, other = (next(iter(model.graph)).metadata_props for model in models)
    assert json.loads(kept["pkg.whence.modules"]) == ["b", "c"] and report.replaced == 1
    assert not any(key.startswith("pkg.whence") for key in other)


def test_branch_that_is_added_to_the_given_model_is_observed():
    model = chain(("Relu", of_module("a")), ("Tanh", of_module("d")))
    condition = onnx_ir.Value(name="c", shape=onnx_ir.Shape([]), type=onnx_ir.TensorType(onnx_ir.DataType.BOOL))
    with whence.keep(model):
        branches = [chain(("Abs", of_module("b")), ("Softplus", of_module("c"))).graph for _ in range(2)]
        for branch in branches:
            branch.inputs.clear()
            next(iter(branch)).replace_input_with(0, next(iter(model.graph)).outputs[0])
        graph = onnx_ir.AttributeType.GRAPH
        choice = onnx_ir.Node("", "If", [condition], [onnx_ir.Attr("then_branch", graph, branches[0]),
                                                      onnx_ir.Attr("else_branch", graph, branches[1])])
        model.graph.inputs.append(condition)
        model.graph.append(choice)
        softplus_of_abs().apply_to_model(model)
    fused = [node.metadata_props for node in model.graph.all_nodes() if node.op_type == "Fused"]
    assert [json.loads(keys["pkg.whence.modules"]) for keys in fused] == [["b", "c"], ["b", "c"]]


def test_a_shared_node_that_vanishes_with_its_last_reader_is_of_that_reader_only():
    """Merges the equal masks of two layers, then fuses each attention with the mask. Each has only its own layer's module."""
    model = chain(("Relu", of_module("a")))
    relu, = model.graph
    masks = [onnx_ir.node("Abs", [model.graph.inputs[0]]) for _ in range(2)]
    sums = [onnx_ir.node("Softmax", [mask.outputs[0]]) for mask in masks]
    total = onnx_ir.node("Concat", [each.outputs[0] for each in (*sums, relu)], attributes={"axis": 0})
    for layer, nodes in enumerate(zip(masks, sums, strict=True)):
        for node in nodes:
            node.metadata_props.update(of_module(f"layers.{layer}"))
    model.graph.extend([*masks, *sums, total])
    model.graph.outputs[0] = total.outputs[0]
    with whence.keep() as report:
        masks[1].outputs[0].replace_all_uses_with(masks[0].outputs[0])
        fused = [onnx_ir.node("Attention", [model.graph.inputs[0]]) for _ in sums]
        for old, new in zip(sums, fused, strict=True):
            model.graph.insert_before(total, new)
            old.outputs[0].replace_all_uses_with(new.outputs[0])
    assert report.merged == 1 and report.replaced == 2
    for layer, node in enumerate(fused):
        assert node.metadata_props[SCOPES] == of_module(f"layers.{layer}")[SCOPES]
        assert "pkg.whence.modules" not in node.metadata_props


@pytest.mark.parametrize("wrong", ["model.onnx", 3])
def test_only_models_in_memory_can_be_observed(wrong):
    with pytest.raises(whence.WhenceError) as raised, whence.keep(wrong):
        pass
    assert raised.value.code == "E0101" and "whence.carry" in raised.value.remedy


def test_node_without_known_neighbours_is_reported():
    model = chain(("Relu", {}), ("Tanh", {}))
    with whence.keep(model) as report:
        pass
    assert report.lost == ["n0", "n1"] and "without an origin: n0, n1" in str(report)


def test_node_between_an_input_and_an_output_of_the_model_is_inside_the_root():
    model = chain(("Relu", of_module("a")))
    unchanged = onnx_ir.node("Identity", [model.graph.inputs[0]])
    model.graph.append(unchanged)
    model.graph.outputs.append(unchanged.outputs[0])
    with whence.keep(model) as report:
        pass
    keys = unchanged.metadata_props
    assert (keys["pkg.whence.module"], keys["pkg.whence.confidence"]) == ("", "ancestor") and not report.lost


@pytest.mark.parametrize("opset", [17, 18])
def test_only_nodes_of_the_model_are_reported(opset, tmp_path):
    """In a process of its own, because onnxscript translates its functions once. For opset 17, onnx converts the file."""
    net = """
import torch, whence
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16)).eval()
with whence.keep() as report:
    program = torch.onnx.export(net, (torch.randn(2, 8),), dynamo=True, verbose=False, opset_version=OPSET)
assert not report.lost, report
keys = [node.metadata_props.get("pkg.torch.onnx.name_scopes", "") for node in program.model.graph]
assert [eval(each)[-2] for each in keys] == ["0", "1", "2"], keys
assert program.model.opset_imports[""] == OPSET
"""
    (tmp_path / "net.py").write_text(net.replace("OPSET", str(opset)))
    done = subprocess.run([sys.executable, tmp_path / "net.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("given", [False, True])
def test_a_graph_that_a_pass_exchanges(given):
    """onnxscript converts to an earlier opset by onnx, which returns another model without metadata."""
    stated = {"Relu": annotated("a", 1), "Softmax": annotated("b", 2), "Tanh": annotated("c", 3)}
    model = chain(*stated.items())
    model.graph.opset_imports[""] = 20
    before = model.graph
    with whence.keep(model if given else None) as report:
        onnxscript.version_converter.convert_version(model, 17, fallback=True)
    assert model.graph is not before and model.graph.opset_imports[""] == 17
    assert {node.op_type: node.metadata_props for node in model.graph} == stated and report.lost == []


def test_methods_of_onnx_ir_are_restored_after_an_error():
    before = onnx_ir.Value.replace_all_uses_with, onnx_ir.Node.replace_input_with, onnx_ir.Node.__init__
    with pytest.raises(RuntimeError, match="of the tool"), whence.keep():
        raise RuntimeError("of the tool")
    assert before == (onnx_ir.Value.replace_all_uses_with, onnx_ir.Node.replace_input_with, onnx_ir.Node.__init__)


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)) * x.shape[0])


def test_torch_export_and_version_converter(tmp_path):
    """Every node has a module, and the numbers are PyTorch's at another size."""
    torch.manual_seed(0)
    model, x = Twice().eval(), torch.randn(3, 4)
    axes = {"x": {0: torch.export.Dim("n")}}
    with whence.keep():
        program = torch.onnx.export(model, (x,), dynamo=True, dynamic_shapes=axes, verbose=False)
        onnxscript.version_converter.convert_version(program.model, 20)
    onnx_ir.save(program.model, tmp_path / "kept.onnx")
    counts = command.run_json("validate", tmp_path / "kept.onnx")["coverage"]
    assert counts["unattributed"] == 0
    y = torch.randn(5, 4)
    session = onnxruntime.InferenceSession(tmp_path / "kept.onnx")
    np.testing.assert_allclose(session.run(None, {"x": y.numpy()})[0], model(y).detach().numpy(), rtol=1e-5, atol=1e-6)


# ---- transformers -------------------------------------------------------------------------------------------------

def values_of(model: onnx_ir.Model, feeds: dict[str, np.ndarray], folder) -> dict[str, np.ndarray]:
    """Returns the values that ONNX Runtime computes for all nodes."""
    everything = model.clone()
    outputs = {value.name for value in everything.graph.outputs}
    everything.graph.outputs.extend(value for node in everything.graph for value in node.outputs
                                    if value.name and value.name not in outputs)
    onnx_ir.save(everything, folder / "everything.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(folder / "everything.onnx", options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {each.name: feeds[each.name] for each in session.get_inputs()}),
                    strict=True))


def is_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns true for the same elements in any layout."""
    return a.size == b.size > 1 and np.allclose(np.sort(a, axis=None), np.sort(b, axis=None), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("provider", ["cpu", "webgpu"])
def test_fused_nodes_of_transformers_have_the_module_of_equal_values(provider, llama, tmp_path):
    """The truth: a fused node's value equals that of a node of the unfused model, whose module PyTorch recorded."""
    from transformers.exporters.onnxruntime_fusions import fuse_for_onnxruntime

    unfused = onnx_ir.load(llama)
    fused = onnx_ir.load(llama)
    with whence.keep(fused) as report:
        fuse_for_onnxruntime(fused, provider)
    assert not report.lost and len(fused.graph) < 0.7 * len(unfused.graph)
    rng = np.random.default_rng(0)
    feeds = {"input_ids": rng.integers(0, 90, (3, 5)), "attention_mask": np.ones((3, 5), np.int64)}
    truth, computed = values_of(unfused, feeds, tmp_path), values_of(fused, feeds, tmp_path)
    known = [(truth[value.name], module_of(node)) for node in unfused.graph for value in node.outputs
             if value.name in truth and module_of(node) is not None]
    wrong, compared = [], 0
    for node in fused.graph:
        values = [computed[value.name] for value in node.outputs if value.name in computed]
        modules = {module for value, module in known if any(is_equal(value, each) for each in values)}
        if not modules or node.op_type in ("Expand", "Shape", "Squeeze"):  # sizes, whose numbers are equal by chance
            continue
        compared += 1
        shared_by = node.metadata_props.get("pkg.whence.modules")  # its module is the one that encloses them
        if module_of(node) not in modules and not (shared_by and any(f"{module_of(node)}." in each for each in modules)):
            wrong.append((node.name, module_of(node), modules))
    assert not wrong and compared > 45
    attentions = [module_of(node) for node in fused.graph if node.op_type == "GroupQueryAttention"]
    assert attentions == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    packed = [json.loads(node.metadata_props["pkg.whence.modules"]) for node in fused.graph
              if node.op_type == "MatMul" and module_of(node) == "model.layers.0.self_attn"
              and "pkg.whence.modules" in node.metadata_props]
    assert any({f"model.layers.0.self_attn.{name}_proj" for name in "qkv"} <= set(modules) for modules in packed)


def module_of(node: onnx_ir.Node) -> str | None:
    """Returns the module of the main operation, read from the keys without whence's code."""
    keys = node.metadata_props
    if "pkg.whence.module" in keys:
        return keys.get("pkg.whence.primary", keys["pkg.whence.module"])
    names = [name for name in json.loads(keys.get(SCOPES, "[]").replace("'", '"'))[:-1] if not name.startswith("_empty")]
    return names[-1] if names else None


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """Returns the file of a small Llama from transformers' exporter, without fusions."""
    import transformers
    from transformers.exporters import OnnxConfig, OnnxExporter

    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      intermediate_size=128, vocab_size=100, max_position_embeddings=64)
    inputs = {"input_ids": torch.randint(0, 100, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    path = tmp_path_factory.mktemp("llama") / "llama.onnx"
    exported = OnnxExporter().export(transformers.LlamaForCausalLM(config).eval(), inputs, config=OnnxConfig(dynamic=True))
    onnx_ir.save(exported.program, path)
    return path


@pytest.mark.parametrize("op_type, parts, main", [  # as in tests/annotator/operators_main_operation_test.cpp
    ("GroupQueryAttention", ["MatMul", "Softmax", "MatMul", "Transpose"], [1]),
    ("MultiHeadAttention", ["Attention", "Softmax", "Add"], [0]),
    ("FusedConv", ["Conv", "BatchNormalization", "Relu"], [0]),
    ("MatMulNBits", ["Transpose", "MatMul", "Add"], [1]),
    ("SkipLayerNormalization", ["Add", "LayerNormalization"], [1]),
    ("SkipSimplifiedLayerNormalization", ["Add", "Pow", "ReduceMean", "Add", "Mul"], [1, 2]),
    ("MatMul", ["MatMul", "MatMul", "MatMul"], [0, 1, 2]),
    ("BiasSoftmax", ["Add", "Softmax", "Cast"], [1]),
    ("BiasGelu", ["Add", "Gelu"], [1]),
    ("GroupQueryAttention", ["Reshape", "Transpose"], [1]),
])
def test_the_main_operations_of_an_operator(op_type, parts, main):
    x = onnx_ir.Value(name="x")
    nodes = [onnx_ir.node(part, [x]) for part in parts]
    for at, node in enumerate(nodes):
        node.metadata_props.update(of_module(f"m.{at}"))
    sources = node_origins.sources_of(nodes, nodes[-1], {})
    expected = f"m.{main[0]}" if len(main) == 1 else "m"
    assert node_origins.merge(op_type, sources).primary == expected


def test_blocks_may_be_nested_and_overlap_in_threads():
    original = onnx_ir.Node.__init__
    model = chain(("Abs", of_module("b")), ("Softplus", of_module("c")))
    first, second, last = (threading.Event() for _ in range(3))

    def begin_and_end_first():
        with whence.keep():
            first.set()
            second.wait()
        last.set()

    thread = threading.Thread(target=begin_and_end_first)
    thread.start()
    first.wait()
    with whence.keep() as outer, whence.keep(model) as inner:
        second.set()
        last.wait()
        assert softplus_of_abs().apply_to_model(model) == 1
    thread.join()
    assert onnx_ir.Node.__init__ is original
    assert (outer.replaced, outer.merged) == (inner.replaced, inner.merged) == (1, 0)
    fused = next(node for node in model.graph if node.op_type == "Fused").metadata_props
    assert fused["pkg.whence.primary"] == "c"


class Repeated(torch.nn.Module):
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

        def forward(self, x):
            return self.norm(self.fc(x).relu() + x)

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(self.Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.mark.parametrize("inline", ["pass", "optimizer"])
def test_inlined_functions_have_the_modules_of_their_call(inline, tmp_path):
    path, functions = tmp_path / "m.onnx", tmp_path / "f.onnx"
    whence.export(Repeated().eval(), (torch.randn(2, 8),), path)
    command.run("functions", path, "--types", "Block", "-o", functions)
    model = onnx_ir.load(functions)
    assert len(model.functions) == 1 and len(model.graph) == 3
    with whence.keep(model) as report:
        if inline == "pass":
            model = common.InlinePass()(model).model
        else:
            onnxscript.optimizer.optimize(model)
    expected = sorted(node.metadata_props["pkg.whence.module"] for node in onnx_ir.load(path).graph)
    assert sorted(node.metadata_props["pkg.whence.module"] for node in model.graph) == expected
    assert {node.metadata_props["pkg.whence.confidence"] for node in model.graph} == {"matched"}
    assert report.replaced == len(expected) and not report.merged and not report.lost


class Pair(torch.nn.Module):
    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x, y):
            x = self.a(x).relu()
            return x, self.b(x + y).tanh()

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(self.Block() for _ in range(3))

    def forward(self, x):
        y = x
        for block in self.blocks:
            x, y = block(x, y)
        return x, y


@pytest.mark.parametrize("exporter", ["whence", "torch"])
def test_inlined_functions_with_two_results(exporter, tmp_path):
    path, functions = tmp_path / "m.onnx", tmp_path / "f.onnx"
    if exporter == "whence":
        whence.export(Pair().eval(), (torch.randn(2, 8),), path)
    else:
        torch.onnx.export(Pair().eval(), (torch.randn(2, 8),), path, dynamo=True, verbose=False, external_data=False)
    command.run("functions", path, "--types", "Block", "-o", functions)
    model = onnx_ir.load(functions)
    with whence.keep(model):
        model = common.InlinePass()(model).model
    before = {node.outputs[0].name: module_of(node) for node in onnx_ir.load(path).graph}
    assert len(model.graph) == len(before) and len({module_of(node) for node in model.graph}) > 6
    for node, module in zip(model.graph, before.values(), strict=True):
        is_ancestor = node.metadata_props.get("pkg.whence.confidence") == "ancestor"
        assert module_of(node) == module or is_ancestor and f"{module}.".startswith(f"{module_of(node)}."), node.name


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Module()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x).tanh(), (x,))


def test_nodes_in_branches_are_inside_the_module_of_the_if():
    program = torch.onnx.export(Branches().eval(), (torch.randn(2, 8),), dynamo=True, verbose=False)
    with whence.keep(program) as report:
        pass
    bare = [node for node in program.model.graph.all_nodes() if "pkg.whence.rule" in node.metadata_props]
    assert not report.lost and report.by_neighbours == len(bare) > 1
    assert {node.metadata_props["pkg.whence.confidence"] for node in bare if node.graph is not program.model.graph} == {"ancestor"}
