"""Each gap of runtime_gaps.py is still one: a gap that ONNX Runtime has closed leaves the list."""

import re

import numpy as np
import onnx.checker
import onnx.helper
import onnx.parser
import onnxruntime
import pytest

from ops.runtime_gaps import GAPS, MOST_GAPS, MOST_OF_NOTHING, NOT_OF_NOTHING, Gap, lacks


def model_of(gap: Gap) -> onnx.ModelProto:
    inputs, outputs, node = re.fullmatch("(.*) => (.*): (.*)", gap.node).groups()
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {gap.opset}]> g ({inputs}) => ({outputs}) {{ {node} }}')


def run(model: onnx.ModelProto) -> None:
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    session.run(None, {value.name: np.zeros([dim.dim_value for dim in value.type.tensor_type.shape.dim],
                                            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
                       for value in model.graph.input})


@pytest.mark.parametrize("gap", [pytest.param(gap, id=f"{gap.operator}-{gap.dtype or gap.opset}-{number}")
                                 for number, gap in enumerate(GAPS)])
def test_a_listed_gap_is_one(gap: Gap):
    with pytest.raises(Exception, match=re.compile(gap.error, re.DOTALL)) as raised:
        run(model_of(gap))
    assert lacks(raised.value, gap.dtype)
    assert not gap.dtype or not lacks(raised.value, "int32"), "the gap is accepted for other dtypes, too"


def test_the_lists_do_not_grow():
    assert len(GAPS) <= MOST_GAPS and len(NOT_OF_NOTHING) <= MOST_OF_NOTHING
    assert all(gap.reason for gap in GAPS) and all(NOT_OF_NOTHING.values())
