"""``whence.accuracy`` on files that a runtime cannot load or run, and on results with other sizes or dtypes than
PyTorch's: the node at fault is named, and values before it are compared."""

import json
import os

import jsonschema
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn

import command
import whence


class Pooled(nn.Module):
    """x [batch, 6] -> score per row []."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.stem, self.mix, self.head = nn.Linear(6, 8), nn.Linear(8, 8), Product()

    def forward(self, x):
        return self.head(torch.relu(self.mix(torch.tanh(self.stem(x)))))


class Product(nn.Module):
    def forward(self, x):
        return (x + 1).prod(-1).sum()


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pooled")
    model = Pooled().eval()
    whence.export(model, (torch.randn(4, 6),), folder / "m.onnx")
    whence.record_values(model, (torch.randn(4, 6),), folder / "m.values.safetensors", operations=True)
    return folder


def changed(folder, tmp_path, change, **options):
    """Saves the file with its graph changed. Returns its path and report."""
    model = onnx.load(folder / "m.onnx")
    change(model.graph)
    onnx.save(model, tmp_path / "changed.onnx", **options)
    report = whence.accuracy(tmp_path / "changed.onnx", folder / "m.values.safetensors", sidecar=folder / "m.whence.json")
    return tmp_path / "changed.onnx", report


def node_of(graph, module: str, op_type: str):
    return next(node for node in graph.node if node.op_type == op_type and any(
        entry.key == "pkg.whence.module" and entry.value == module for entry in node.metadata_props))


def fail_to_load(graph):
    node_of(graph, "mix", "Gemm").op_type = "NoSuchOperator"


def fail_to_run(graph):
    """Reshapes the first layer's result to sizes with other numbers of elements. The sizes are known only in a run."""
    tanh = node_of(graph, "", "Tanh")
    at = list(graph.node).index(tanh)
    sizes = [helper.make_node("Shape", [graph.input[0].name], ["sizes"]),
             helper.make_node("Reshape", ["whole", "sizes"], [tanh.output[0]], name="reshape")]
    for entry in tanh.metadata_props:
        sizes[1].metadata_props.add(key=entry.key, value=entry.value)
    tanh.output[0] = "whole"
    for node in reversed(sizes):
        graph.node.insert(at + 1, node)
    del graph.value_info[:]


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(("change", "module", "nodes"), [(fail_to_load, "mix", "/mix/Gemm"), (fail_to_run, "", "reshape")])
def test_the_first_node_that_fails_is_named_and_earlier_values_are_compared(pooled, tmp_path, change, module, nodes, external):
    options = {"save_as_external_data": True, "size_threshold": 0, "location": "w.bin"} if external else {}
    _, report = changed(pooled, tmp_path, change, **options)
    assert (report.first.module, report.first.nodes) == (module, (nodes,)) and report.first.failure
    assert report.of("stem").status == "equal" and report.of("head").status == "not observable"
    assert not report.clean and [each["module"] for each in report.findings] == [module]
    jsonschema.validate(report.to_json(), json.loads((command.ROOT / "schema/accuracy.schema.json").read_text()))


def test_a_first_node_that_fails_is_named(pooled, tmp_path):
    def change(graph):
        node_of(graph, "stem", "Gemm").op_type = "NoSuchOperator"

    _, report = changed(pooled, tmp_path, change)
    assert report.first.module == "stem" and report.first.failure and report.observable == 0


@pytest.mark.parametrize(("module", "op_type", "operator", "named"), [
    ("head", "ReduceProd", "prod.dim_int", "head"), ("mix", "Gemm", "linear.default", "")])
def test_the_only_operation_of_an_operator_names_the_module_of_a_node_that_states_one_around_it(
        pooled, tmp_path, module, op_type, operator, named):
    """The model has one product and two linear layers."""
    def change(graph):
        node = node_of(graph, module, op_type)
        node.op_type = "NoSuchOperator"
        del node.metadata_props[:]
        for key, value in (("pkg.whence.module", ""), ("pkg.whence.confidence", "ancestor"), (
                "pkg.torch.onnx.fx_node", f"%x : [num_users=1] = call_function[target=torch.ops.aten.{operator}](args = (%y,))")):
            node.metadata_props.add(key=key, value=value)

    _, report = changed(pooled, tmp_path, change)
    assert report.first.failure and (report.first.module, report.first.operation) == (named, f"aten::{operator.split('.')[0]}")
    assert report.first.suspects == (named,)


def test_the_command_names_the_node_that_fails_and_exits_with_findings(pooled, tmp_path):
    path, _ = changed(pooled, tmp_path, fail_to_load)
    before = path.read_bytes()
    result = command.run("accuracy", path, "--values", pooled / "m.values.safetensors",
                                "--sidecar", pooled / "m.whence.json", code=1)
    assert "first module that does not run: mix" in result.stdout and "NoSuchOperator" in result.stdout
    assert "linear.py:134 forward, called at test_files_that_fail.py:" in result.stdout
    assert "operation: aten::linear" in result.stdout and path.read_bytes() == before


def test_a_difference_before_the_node_that_fails_is_the_first(pooled, tmp_path):
    def change(graph):
        fail_to_load(graph)
        bias = next(each for each in graph.initializer if each.name == "stem.bias")
        bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + 1, bias.name))

    _, report = changed(pooled, tmp_path, change)
    assert report.first.module == "stem" and not report.first.failure
    assert [each.module for each in report.beginnings] == ["stem", "mix"] and report.beginnings[1].failure


def test_an_output_with_other_sizes_differs(pooled, tmp_path):
    def change(graph):
        graph.node.append(helper.make_node("Unsqueeze", ["inner", "axis"], [graph.output[0].name], name="more"))
        graph.node[-2].output[0] = "inner"
        graph.node[-1].metadata_props.extend(graph.node[-2].metadata_props)
        graph.initializer.append(numpy_helper.from_array(torch.zeros(1, dtype=torch.int64).numpy(), "axis"))
        graph.output[0].CopyFrom(helper.make_tensor_value_info(graph.output[0].name, 1, [1]))

    _, report = changed(pooled, tmp_path, change)
    assert report.first.module == "head" and "[1] instead of []" in report.first.form and not report.clean


def test_an_output_with_another_kind_of_dtype_differs(pooled, tmp_path):
    def change(graph):
        graph.node.append(helper.make_node("Cast", ["inner"], [graph.output[0].name], name="cast", to=onnx.TensorProto.INT64))
        graph.node[-2].output[0] = "inner"
        graph.node[-1].metadata_props.extend(graph.node[-2].metadata_props)
        graph.output[0].CopyFrom(helper.make_tensor_value_info(graph.output[0].name, onnx.TensorProto.INT64, []))

    _, report = changed(pooled, tmp_path, change)
    assert report.first.module == "head" and "int64 instead of float32" in report.first.form


def test_an_inner_result_with_more_elements_differs(pooled, tmp_path):
    def change(graph):
        """Repeats the rows of the second layer's result, so that all later sizes differ, too."""
        gemm = node_of(graph, "mix", "Gemm")
        repeat = helper.make_node("Concat", ["once", "once"], [gemm.output[0]], name="repeat", axis=0)
        repeat.metadata_props.extend(gemm.metadata_props)
        gemm.output[0] = "once"
        graph.node.insert(list(graph.node).index(gemm) + 1, repeat)
        del graph.value_info[:]

    _, report = changed(pooled, tmp_path, change)
    assert report.first.module == "mix" and "[8, 8] instead of [4, 8]" in report.first.form


def test_nodes_in_any_order_are_bisected(pooled, tmp_path):
    """Converters to float16 append their nodes at the end of the file, which ONNX Runtime accepts."""
    def change(graph):
        fail_to_load(graph)
        first = graph.node[0]
        graph.node.append(first)
        del graph.node[0]

    _, report = changed(pooled, tmp_path, change)
    assert report.first.module == "mix" and report.of("stem").status == "equal"


def test_a_file_that_fails_only_without_requested_results_does_not_run(tmp_path):
    """ONNX Runtime reuses the memory of a result whose inferred sizes are wrong, unless the result is requested."""
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.stem, self.cut = nn.Linear(6, 10), Cut()

        def forward(self, x):
            return self.cut(torch.tanh(self.stem(x)))

    class Cut(nn.Module):
        def forward(self, x):
            return torch.cat([x[:, :3] * 2, x[:, 3:] + 1], 1)

    model, x = Parts().eval(), torch.randn(4, 6)
    whence.export(model, (x,), tmp_path / "m.onnx")
    whence.record_values(model, (x,), tmp_path / "m.values.safetensors", operations=True)
    file = onnx.load(tmp_path / "m.onnx")
    plain = whence.numerics.runtimes.onnxruntime

    def fails_alone(read, *options):
        runtime = plain(read, *options)

        def take(feed, names):
            if list(names) == read.outputs:
                raise whence.errors.error("E0207", "run_failed", f"cannot run Name:'{file.graph.node[-1].name}'", "-")
            yield from runtime.take(feed, names)

        return whence.numerics.runtimes.Runtime(runtime.settings, take, True, runtime.provider)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whence.numerics.runtimes, "onnxruntime", fails_alone)
        report = whence.accuracy(tmp_path / "m.onnx", tmp_path / "m.values.safetensors", sidecar=tmp_path / "m.whence.json")
    assert report.first.module == "cut" and report.first.failure and report.findings and report.of("stem").status == "equal"


CRASHING_RUNTIME = """
import os

import onnx
import onnxruntime

class Crashing(onnxruntime.InferenceSession):
    def __init__(self, model, *arguments, **options):
        super().__init__(model, *arguments, **options)
        proto = onnx.load_model_from_string(model) if isinstance(model, bytes) else onnx.load(model)
        self.crashes = any(node.op_type == "Gelu" for node in proto.graph.node)

    def run(self, *arguments):
        os.abort() if self.crashes else None
        return super().run(*arguments)

    def run_with_ort_values(self, *arguments):
        os.abort() if self.crashes else None
        return super().run_with_ort_values(*arguments)

onnxruntime.InferenceSession = Crashing
"""


def test_a_module_that_crashes_the_runtime_is_named(pooled, tmp_path):
    """The runtime stands in for one with a defect: it aborts the process when it runs a Gelu."""
    model = onnx.load(pooled / "m.onnx")
    node_of(model.graph, "", "Relu").op_type = "Gelu"
    onnx.save(model, tmp_path / "gelu.onnx")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(CRASHING_RUNTIME)
    arguments = ("accuracy", tmp_path / "gelu.onnx", "--values", pooled / "m.values.safetensors", "--sidecar", pooled / "m.whence.json")
    variables = {"PYTHONPATH": os.pathsep.join((str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")))}
    result = command.run(*arguments, code=1, env=variables)
    assert "first module that does not run: (root)" in result.stdout and "aten::relu" in result.stdout
    assert "the runtime crashes (SIGABRT); all values observed before it agree" in result.stdout
    rows = {each["module"]: each["status"] for each in json.loads(
        command.run(*arguments, "--json", code=1, env=variables).stdout)["modules"]}
    assert rows["stem"] == rows["mix"] == "equal" and rows["head"] == "not observable"
    assert command.run(*arguments[:1], pooled / "m.onnx", *arguments[2:], env=variables).returncode == 0


def test_nothing_observed_before_a_failure_is_stated(pooled, tmp_path):
    def fail_at_once(graph):
        node_of(graph, "stem", "Gemm").op_type = "NoSuchOperator"

    report = changed(pooled, tmp_path, fail_at_once)[1]
    assert "no value before it is observable" in str(report) and "agree" not in str(report)
