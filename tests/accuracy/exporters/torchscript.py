"""PyTorch's TorchScript exporter, and the truth of its files.

The model is exported again with a unique mark as the scope of every module call. The names of nodes and values then
contain marks instead of modules (`w0/w7/MatMul`), in the same order as in the user's file. If the exporter merges
nodes of several modules, the marks name only one of the modules, so further exports are compared:

- Conv and BatchNorm: a third export without that fold shows which BatchNorm each Conv absorbed.
- common subexpressions: a fourth export without merging shows which nodes were equal; equal nodes of several modules
  have no truth.

Nodes created by the exporter's C++ passes have no scope; they get the single module of their consumers, or no truth.
"""

import collections
import contextlib
import re
from pathlib import Path

import onnx
import torch
from torch.onnx._internal.torchscript_exporter import utils

from accuracy import models
from accuracy.graphs import all_nodes, attributes
from accuracy.truth import Truth, modules

MARK = re.compile(r"(?:^|/)w(\d+)(?=/)")


def export(name: str, opset: int, dynamic: bool, path: Path) -> Truth:
    """Writes the file that a user would get and returns its truth."""
    trace(name, opset, dynamic, path)
    plain = onnx.load(path)
    marked, calls = marked_export(name, opset, dynamic, path)
    unfolded, _ = marked_export(name, opset, dynamic, path, without="_jit_pass_onnx_eval_peephole")
    unmerged, _ = marked_export(name, opset, dynamic, path, without="_jit_pass_cse")
    truth = marks_truth(marked, calls)
    add_batch_norms(truth, marked, unfolded, calls)
    drop_merged(truth, marked, unmerged, calls)
    adopt_scopeless(truth, marked)
    return truth.renamed(same_nodes(marked, plain))


def trace(name: str, opset: int, dynamic: bool, path: Path) -> None:
    inputs, axes = models.example(name), models.ENTRIES[name].dynamic
    with models.quiet():
        torch.onnx.export(models.positional(name), tuple(inputs.values()), str(path), input_names=list(inputs),
                          opset_version=opset, dynamo=False, dynamic_axes=axes if dynamic else None)


class Marks(dict):
    """Replaces the exporter's table of scope names: returns a new mark for each module call."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.paths = {module: path for path, module in model.named_modules()}
        self.calls = []  # (module, call), indexed by mark
        self.count = collections.Counter()

    def get(self, module, default=None):
        path = self.paths[module]
        self.calls.append((path, self.count[path]))
        self.count[path] += 1
        return torch._C._jit_onnx_create_full_scope_name("M", f"w{len(self.calls) - 1}")


def marked_export(name: str, opset: int, dynamic: bool, path: Path, without: str = "") -> tuple:
    """Returns the marked file and its list of calls. `without` disables one of the exporter's passes."""
    setup, box = utils._setup_trace_module_map, []

    def set_marks(model, *rest):
        result = setup(model, *rest)
        box.append(Marks(model))
        torch.jit._trace._trace_module_map = box[-1]
        return result

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(utils, "_setup_trace_module_map", set_marks))
        if without:
            # The folding pass returns the parameters, the merging pass whether the graph changed.
            stack.enter_context(replaced(torch._C, without, lambda graph, params=False: params))
        marked = path.with_suffix(".marked.onnx")
        trace(name, opset, dynamic, marked)
        model = onnx.load(marked)
        marked.unlink()
    return model, box[-1].calls


@contextlib.contextmanager
def replaced(owner, attribute: str, value):
    before = getattr(owner, attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)


def call_of(node: onnx.NodeProto, calls: list) -> frozenset | None:
    marks = MARK.findall(node.name)
    return frozenset({calls[int(marks[-1])]}) if marks else None


def marks_truth(marked: onnx.ModelProto, calls: list) -> Truth:
    truth = Truth()
    for key, node in all_nodes(marked):
        call = call_of(node, calls)
        if call is None:
            truth.unknown[key] = "no scope"
        else:
            truth.nodes[key] = call
    return truth


def add_batch_norms(truth: Truth, marked: onnx.ModelProto, unfolded: onnx.ModelProto, calls: list) -> None:
    remaining = {node.name for _, node in all_nodes(marked)}
    producers = {name: node for _, node in all_nodes(unfolded) for name in node.output}
    keys = {node.name: key for key, node in all_nodes(marked)}
    for _, node in all_nodes(unfolded):
        if node.op_type == "BatchNormalization" and node.name not in remaining:
            convolution = keys[producers[node.input[0]].name]
            truth.nodes[convolution] |= call_of(node, calls)


def structure(model: onnx.ModelProto) -> dict[str, int]:
    """Maps each node name to a hash of its computation; nodes with equal hashes may be merged."""
    values = {tensor.name: hash(tensor.raw_data) for tensor in model.graph.initializer}
    hashes = {}
    for node in model.graph.node:
        inputs = tuple(values.get(name, name) for name in node.input)
        hashes[node.name] = hash((node.op_type, attributes(node), inputs))
        for index, name in enumerate(node.output):
            values[name] = hash((hashes[node.name], index))
    return hashes


def drop_merged(truth: Truth, marked: onnx.ModelProto, unmerged: onnx.ModelProto, calls: list) -> None:
    hashes, before = structure(marked), structure(unmerged)
    groups = collections.defaultdict(list)
    for _, node in all_nodes(unmerged):
        if node.op_type != "Constant" and node.name in before:
            groups[before[node.name]].append(call_of(node, calls) or frozenset())
    remaining = collections.Counter(hashes.values())
    for key, node in all_nodes(marked):
        group = groups.get(hashes.get(node.name), [])
        if key not in truth.nodes or len(group) <= remaining[hashes.get(node.name)]:
            continue
        together = truth.nodes[key].union(*group)
        if len(modules(together)) == 1:
            truth.nodes[key] = together
        else:
            del truth.nodes[key]
            truth.unknown[key] = "merged"


def adopt_scopeless(truth: Truth, marked: onnx.ModelProto) -> None:
    """Assigns a node without a scope to the module of its consumers. A constant shared by modules has no truth."""
    users = collections.defaultdict(list)
    for key, node in all_nodes(marked):
        for name in node.input:
            users[name].append(key)
    nodes = list(all_nodes(marked))
    for key, node in reversed(nodes):
        consumers = [user for name in node.output for user in users[name]]
        known = [truth.nodes[user] for user in consumers if user in truth.nodes]
        if key in truth.unknown and truth.unknown[key] == "no scope":
            if consumers and len(known) == len(consumers) and len(set(known)) == 1 and len(known[0]) == 1:
                truth.nodes[key] = known[0]
                del truth.unknown[key]
        elif node.op_type == "Constant" and any(modules(calls) != modules(truth.nodes[key]) for calls in known):
            del truth.nodes[key]
            truth.unknown[key] = "shared constant"


def same_nodes(marked: onnx.ModelProto, plain: onnx.ModelProto) -> dict[str, str]:
    """Maps the keys of the marked file to those of the plain file. The files must differ only in names."""
    pairs = list(zip(all_nodes(marked), all_nodes(plain), strict=True))
    values = {}
    for (_, one), (_, other) in pairs:
        assert (one.op_type, attributes(one)) == (other.op_type, attributes(other)), (one.name, other.name)
        for marked_value, plain_value in zip([*one.input, *one.output], [*other.input, *other.output], strict=True):
            assert values.setdefault(marked_value, plain_value) == plain_value, (one.name, marked_value)
    return {one: other for (one, _), (other, _) in pairs}
