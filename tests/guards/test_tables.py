"""Tables compared with their subject: operator schemas with LibTorch's dispatcher, error codes with the tests."""

import re

import onnx
import pytest
import torch
import transformers.integrations.moe  # noqa: F401, registers transformers::grouped_mm_fallback
import torch.ao.quantization.fx._decomposed  # noqa: F401, operators that PyTorch registers on import

import command
import ops.cases.detection  # noqa: F401, registers torchvision's

OPERATORS = command.run_json("ops")["operators"]
CODES = command.run_json("codes")["codes"]


@pytest.fixture(scope="module")
def dispatcher() -> dict:
    """Returns the schemas by key, "aten::add.Tensor"."""
    return {schema.name + (f".{schema.overload_name}" if schema.overload_name else ""): schema
            for schema in torch._C._jit_get_all_schemas()}


def as_sequence_operator(schema) -> tuple[list[str], str]:
    """Returns the types of a list's method as in a Program: any element is accepted, and the changed list is returned.

    Names are omitted, because PyTorch calls the list self, list, l or a."""
    kinds = [re.sub(r"\bt\b", "Tensor", str(each.type)) for each in schema.arguments]
    changes = schema.arguments[0].alias_info is not None and schema.arguments[0].alias_info.is_write
    returned = kinds[0] if changes else re.sub(r"\bt\b", "Tensor", str(schema.returns[0].type))
    return kinds, returned


def test_every_schema_of_the_table_is_the_dispatchers(dispatcher):
    assert len(dispatcher) > 2000 and len(OPERATORS) > 50
    wrong = {}
    for operator in OPERATORS:
        if operator["operator"] in ("prim::ListConstruct", "prim::tolist", "prim::Optional"):
            continue  # PyTorch has no schema of the first two, whose arguments or results vary; the third is ours
        theirs = dispatcher.get(operator["operator"])
        ours = torch._C.parse_schema(operator["schema"])
        if theirs is not None and str(theirs.arguments[0].type) == "List[t]":
            if as_sequence_operator(theirs) == as_sequence_operator(ours):
                continue
        if theirs is None or str(ours) != str(torch._C.parse_schema(str(theirs))):
            wrong[operator["schema"]] = str(theirs)
    assert not wrong


def test_no_key_is_an_in_place_operator():
    names = {operator["operator"].split(".")[0] for operator in OPERATORS}
    assert not [name for name in names if name.endswith("_") and not name.endswith("__")]  # __and__ is `&`


def test_changed_forms_agree_in_functions_and_python():
    from whence.converters import node_recorder

    source = (command.ROOT / "annotator/write/user_functions.cpp").read_text()
    table = re.search(r"reformed\{(.*?)\};", source, re.DOTALL)[1]
    theirs = {name: int(opset) for name, opset in re.findall(r'\{"(\w+)", (\d+)\}', table)}
    assert theirs == node_recorder._CHANGED_AT and theirs["Softmax"] == 13
    for name, opset in theirs.items():
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
