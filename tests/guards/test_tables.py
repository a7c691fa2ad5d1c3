"""Operator schemas equal those of LibTorch's dispatcher, and every error code has a test."""

import re

import onnx
import pytest
import torch
import transformers.integrations.moe  # noqa: F401, registers transformers::grouped_mm_fallback
import torch.ao.quantization.fx._decomposed  # noqa: F401, operators that PyTorch registers on import

import command
import ops.cases.detection  # noqa: F401, registers torchvision's operators

OPERATORS = command.run_json("ops")["operators"]
CODES = command.run_json("codes")["codes"]


@pytest.fixture(scope="module")
def dispatcher() -> dict:
    """Maps keys like "aten::add.Tensor" to schemas."""
    return {schema.name + (f".{schema.overload_name}" if schema.overload_name else ""): schema
            for schema in torch._C._jit_get_all_schemas()}


def as_sequence_operator(schema) -> tuple[list[str], str]:
    """Returns the types of a list's method as in a Program: elements are tensors, and a method that changes the list returns it.

    Omits the names of arguments, because PyTorch calls the list self, list, l or a."""
    kinds = [re.sub(r"\bt\b", "Tensor", str(argument.type)) for argument in schema.arguments]
    changes = schema.arguments[0].alias_info is not None and schema.arguments[0].alias_info.is_write
    returned = kinds[0] if changes else re.sub(r"\bt\b", "Tensor", str(schema.returns[0].type))
    return kinds, returned


def test_schemas_equal_those_of_the_dispatcher(dispatcher):
    assert len(dispatcher) > 2000 and len(OPERATORS) > 50
    differences = {}
    for operator in OPERATORS:
        if operator["operator"] in ("prim::ListConstruct", "prim::tolist", "prim::Optional"):
            continue  # the first two vary, so PyTorch has no schema of them; only whence has the third
        pytorch_schema = dispatcher.get(operator["operator"])
        whence_schema = torch._C.parse_schema(operator["schema"])
        if pytorch_schema is not None and str(pytorch_schema.arguments[0].type) == "List[t]":
            if as_sequence_operator(pytorch_schema) == as_sequence_operator(whence_schema):
                continue
        if pytorch_schema is None or str(whence_schema) != str(torch._C.parse_schema(str(pytorch_schema))):
            differences[operator["schema"]] = str(pytorch_schema)
    assert not differences


def test_the_table_has_no_in_place_operators():
    names = {operator["operator"].split(".")[0] for operator in OPERATORS}
    assert not [name for name in names if name.endswith("_") and not name.endswith("__")]  # __and__ is `&`


def test_opsets_of_changed_operators_agree_in_cpp_and_python():
    from whence.converters import node_recorder

    source = (command.ROOT / "annotator/write/user_functions.cpp").read_text()
    table = re.search(r"reformed\{(.*?)\};", source, re.DOTALL)[1]
    opsets = {name: int(opset) for name, opset in re.findall(r'\{"(\w+)", (\d+)\}', table)}
    assert opsets == node_recorder._CHANGED_AT and opsets["Softmax"] == 13
    for name, opset in opsets.items():
        assert onnx.defs.get_schema(name, opset, "").since_version == opset


def test_every_code_has_a_test():
    texts = ""
    for path in sorted((command.ROOT / "tests").rglob("*")):
        listing = path.name == "diagnostic_test.cpp" or path.parent.name == "guards"
        if path.suffix in (".py", ".cpp") and not listing:
            texts += path.read_text()
    assert len(CODES) > 15
    untested = [code["name"] for code in CODES
                if not re.search(rf'\b{code["code"]}\b|Code::{code["name"]}\b', texts)]
    assert not untested
