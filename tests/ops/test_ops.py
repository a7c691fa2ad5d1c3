"""Every operator converter against PyTorch, in ONNX Runtime: the tables in cases/, one family each."""

import importlib
from pathlib import Path

import onnx
import onnx.checker
import onnx.shape_inference
import onnxruntime
import pytest
import torch

from command import run, run_json
from ops.case import Case

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.jit", "ignore::torch.jit.TracerWarning")
HERE = Path(__file__).parent
FAMILIES = {table.stem: importlib.import_module(f"ops.cases.{table.stem}").CASES
            for table in sorted((HERE / "cases").glob("*.py"))}
CASES = [case for cases in FAMILIES.values() for case in cases]
NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64}  # Python's, as tensors
GROWTH = 3  # by which dynamic axes are longer in the second comparison


def operators(block) -> set[str]:
    """Keys of the operators in a TorchScript graph, "aten::add.Tensor", nested blocks included."""
    found = set()
    for node in block.nodes():
        schema = node.schema()
        found.add(node.kind() if schema == "(no schema)" else schema.split("(")[0])
        for inner in node.blocks():
            found |= operators(inner)
    return found


def flat(result) -> list[torch.Tensor]:
    if isinstance(result, (tuple, list)):
        return [tensor for element in result for tensor in flat(element)]
    return [result if isinstance(result, torch.Tensor) else torch.tensor(result, dtype=NUMBERS[type(result)])]


def saved(case: Case, folder: Path) -> Path:
    archive = case.archive()
    graph = archive.inlined_graph
    recorded = case.recorded_as or case.key
    assert recorded in operators(graph), f"{recorded} does not occur in the archive:\n{graph}"
    path = folder / "operator.pt"
    archive.save(str(path))
    return path


def export_arguments(case: Case, archive: Path, folder: Path, opset: int) -> list[str]:
    inputs = folder / "inputs.pt"
    torch.save(tuple(case.tensors()), inputs)
    arguments = ["export", archive, "-o", folder / "operator.onnx", "--inputs", inputs, "--opset", opset]
    for group in case.dynamic.split():
        arguments += ["--dynamic", group]
    return arguments


def check_file(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    return model


def compare(case: Case, archive: Path, model: onnx.ModelProto, session: onnxruntime.InferenceSession,
            growth: int) -> None:
    """The reference is the archive as PyTorch runs it, which need not be what was traced: a Python number there is a
    tensor by the time it is loaded, and promotes as one."""
    tensors = case.tensors(growth)
    with torch.no_grad():
        expected = flat(torch.jit.load(archive)(*[tensor.clone() for tensor in tensors]))
    wanted = {value.name for value in session.get_inputs()}
    feed = {name: tensor.numpy() for name, tensor in zip(case.argument_names(), tensors, strict=True) if name in wanted}
    actual = [torch.from_numpy(array) for array in session.run(None, feed)]
    assert len(actual) == len(expected)
    for ours, theirs, declared in zip(actual, expected, model.graph.output, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        for size, dim in zip(ours.shape, declared.type.tensor_type.shape.dim, strict=True):
            assert not dim.HasField("dim_value") or dim.dim_value == size, "the declared output shape is wrong"
        if case.tolerance:
            torch.testing.assert_close(ours, theirs, rtol=case.tolerance.relative, atol=case.tolerance.absolute,
                                       equal_nan=True)


PARAMETERS = [pytest.param(case, opset, id=f"{family}-{case}-opset{opset}")
              for family, cases in FAMILIES.items() for case in cases for opset in case.opsets]


@pytest.mark.parametrize("case, opset", PARAMETERS)
def test_operator(case: Case, opset: int, tmp_path: Path):
    archive = saved(case, tmp_path)
    arguments = export_arguments(case, archive, tmp_path, opset)
    if case.refused:
        assert case.refused in run(*arguments, code=4).stderr
        return
    run(*arguments)
    model = check_file(tmp_path / "operator.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(tmp_path / "operator.onnx", options, providers=["CPUExecutionProvider"])
    compare(case, archive, model, session, 0)
    if case.dynamic:
        compare(case, archive, model, session, GROWTH)


def table_keys() -> set[str]:
    return {entry["operator"] for entry in run_json("ops")["operators"]}


def test_every_converter_has_a_case():
    missing = table_keys() - {case.key for case in CASES}
    assert not missing, f"no case for {sorted(missing)}"


def test_every_case_has_a_converter():
    unknown = {case.key for case in CASES} - table_keys()
    assert not unknown, f"no converter for {sorted(unknown)}"


def test_operators_of_common_models_have_converters():
    """priority_a.txt lists what common models are made of, and says of the rest why it needs no converter."""
    lines = (HERE / "priority_a.txt").read_text().splitlines()
    needed = {line.split()[0] for line in lines if line and not line.startswith("#")}
    assert needed, "priority_a.txt lists nothing"
    missing = needed - table_keys()
    assert not missing, f"no converter for {sorted(missing)}"
