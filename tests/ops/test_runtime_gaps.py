"""Checks that each gap in runtime_gaps.py still exists. A gap that ONNX Runtime has closed must be removed."""

import re

import numpy as np
import onnx.checker
import onnx.helper
import onnx.parser
import onnxruntime
import pytest

from ops.runtime_gaps import GAPS, MAX_GAPS, MAX_REFUSES_EMPTY, REFUSES_EMPTY, Gap, is_known_gap


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
def test_every_listed_gap_exists(gap: Gap):
    with pytest.raises(Exception, match=re.compile(gap.error, re.DOTALL)) as raised:
        run(model_of(gap))
    assert is_known_gap(raised.value, gap.dtype)
    assert not gap.dtype or not is_known_gap(raised.value, "int32"), "the gap is also accepted for other dtypes"


def test_the_lists_do_not_grow():
    assert len(GAPS) <= MAX_GAPS and len(REFUSES_EMPTY) <= MAX_REFUSES_EMPTY
    assert all(gap.reason for gap in GAPS) and all(REFUSES_EMPTY.values())
