"""Operators that ONNX allows but ONNX Runtime's CPU provider does not run, with the reasons why whence writes them.
Tests accept no other failures. The lists have a maximum length, so that they do not grow unnoticed."""

import re
from dataclasses import dataclass

ONLY_FORM = "ONNX allows this dtype, and no combination of operators with kernels computes it"
NO_INTEGERS = "ONNX allows int64, which images rarely have"
UP_TO_21 = "ONNX Runtime 1.32 has kernels up to opset 21; the operator is unchanged since"
UP_TO_27 = "ONNX Runtime 1.32 has kernels up to opset 27; the operator is unchanged since"


@dataclass(frozen=True)
class Gap:
    """An operator that ONNX Runtime does not run for a dtype, or from an opset on. test_runtime_gaps.py tests it with a
    model of one node."""

    operator: str
    dtype: str  # a key of matrix.DTYPES, or "" if every dtype has the gap
    opset: int  # the first opset with the gap
    reason: str  # why whence writes the operator
    node: str  # in ONNX's text form: inputs => outputs: node
    message: str = ""  # a regular expression for the error of a run; "" if loading fails

    @property
    def error(self) -> str:
        if self.message:
            return f"while running {self.operator} node.*{self.message}"
        return (rf"(Could not find an implementation|Failed to find kernel) for "
                rf"{self.operator}\({self.opset if not self.dtype else '[0-9]+'}\)")


def double(operator: str, node: str, message: str = "") -> Gap:
    return Gap(operator, "double", 20, ONLY_FORM, node, message)


def half(operator: str, node: str, message: str) -> Gap:
    return Gap(operator, "half", 20, ONLY_FORM, node, message)


def since_22(operator: str, node: str) -> Gap:
    return Gap(operator, "", 22, UP_TO_21, node)


def since_28(operator: str, node: str) -> Gap:
    return Gap(operator, "", 28, UP_TO_27, node)


GAPS = (
    *[double(name, f"double[2] x => double[2] y: y = {name}(x)") for name in ("Acos", "Asin", "Atan", "Erf")],
    double("AveragePool", "double[1,1,4] x => double[1,1,3] y: y = AveragePool <kernel_shape = [2]> (x)"),
    double("Col2Im", "double[1,4,1] x, int64[2] i, int64[2] b => double[a,b,c,d] y: y = Col2Im(x, i, b)"),
    double("Conv", "double[1,1,4] x, double[1,1,2] w => double[1,1,3] y: y = Conv(x, w)"),
    double("ConvTranspose", "double[1,1,4] x, double[1,1,2] w => double[1,1,5] y: y = ConvTranspose(x, w)"),
    double("Det", "double[2,2] x => double y: y = Det(x)"),
    double("MaxRoiPool", "double[1,1,4,4] x, double[1,5] r => double[1,1,2,2] y: "
           "y = MaxRoiPool <pooled_shape = [2, 2]> (x, r)"),
    double("Resize", "double[1,1,2] x, float[3] s => double[a,b,c] y: y = Resize(x, , s)"),
    double("RNN", "double[2,1,3] x, double[1,4,3] w, double[1,4,4] r => double[2,1,1,4] y: "
           "y = RNN <hidden_size = 4> (x, w, r)"),
    double("GRU", "double[2,1,3] x, double[1,12,3] w, double[1,12,4] r => double[2,1,1,4] y: "
           "y = GRU <hidden_size = 4> (x, w, r)", "GRU operator does not support double yet"),
    double("LSTM", "double[2,1,3] x, double[1,16,3] w, double[1,16,4] r => double[2,1,1,4] y: "
           "y = LSTM <hidden_size = 4> (x, w, r)", "LSTM operator does not support double yet"),
    *[half("ScatterElements", "float16[2] x, int64[2] i, float16[2] u => float16[2] y: "
           f'y = ScatterElements <reduction = "{reduction}"> (x, i, u)',
           f"MLFloat16 data type is not supported with ScatterElements opset 16 when reduction is '{reduction}'")
      for reduction in ("add", "mul")],
    *[half("ScatterND", "float16[2] x, int64[2,1] i, float16[2] u => float16[2] y: "
           f'y = ScatterND <reduction = "{reduction}"> (x, i, u)',
           f"MLFloat16 data type is not supported with ScatterND opset 1[68] when reduction is '{reduction}'")
      for reduction in ("add", "mul", "max", "min")],
    Gap("DepthToSpace", "int", 20, NO_INTEGERS, "int64[1,4,1,1] x => int64[1,1,2,2] y: "
        "y = DepthToSpace <blocksize = 2> (x)"),
    Gap("SpaceToDepth", "int", 20, NO_INTEGERS, "int64[1,1,2,2] x => int64[1,4,1,1] y: "
        "y = SpaceToDepth <blocksize = 2> (x)"),
    since_22("MaxRoiPool", "float[1,1,4,4] x, float[1,5] r => float[1,1,2,2] y: "
             "y = MaxRoiPool <pooled_shape = [2, 2]> (x, r)"),
    since_22("Multinomial", "float[1,3] x => int32[1,1] y: y = Multinomial(x)"),
    since_28("Optional", "float[2] x => optional(float[2]) y: y = Optional(x)"),
    since_28("DequantizeLinear", "uint8[3] x, float s => float[3] y: y = DequantizeLinear(x, s)"),
    since_28("QuantizeLinear", "float[3] x, float s => uint8[3] y: y = QuantizeLinear(x, s)"),
    *[since_22(name, f"float[1] x => float[2] y: y = {name} <shape = [2]> ()")
      for name in ("RandomNormal", "RandomUniform")],
    *[since_22(name, f"float[2] x => float[2] y: y = {name}(x)") for name in ("RandomNormalLike", "RandomUniformLike")],
    since_22("RoiAlign", "float[1,1,4,4] x, float[1,4] r, int64[1] b => float[1,1,1,1] y: y = RoiAlign(x, r, b)"),
)
MAX_GAPS = 32

# Operators that refuse an empty tensor although PyTorch computes a result, and why whence accepts this.
REFUSES_EMPTY = {
    "Attention": "its kernel requires a batch, queries and keys",
    "ConvTranspose": "its kernel computes the sizes of the result backwards",
    "GlobalAveragePool": "its kernel refuses the mean of no pixels, which is NaN in PyTorch",
    "Reshape": "a 0 next to a -1 makes the -1 ambiguous; computing every size would add nodes to every model",
}
MAX_REFUSES_EMPTY = 4

# Operators that abort the process in ONNX Runtime 1.32 on an empty tensor; never run with one.
ABORTS_ON_EMPTY = {"Einsum", "GRU", "InstanceNormalization", "LSTM", "RNN"}


def is_known_gap(error: Exception, dtype: str) -> bool:
    """Returns true if a listed gap explains why ONNX Runtime does not load or run a file."""
    return any(gap.dtype in ("", dtype) and re.search(gap.error, str(error), re.DOTALL) for gap in GAPS)


def refuses_empty(error: Exception) -> bool:
    """Returns true if a listed operator stopped a run. whence names every node, so a node without a name is
    ONNX Runtime's fusion to an Attention without a kernel."""
    match = re.search(r"while running (\w+) node\. Name:'([^']*)'", str(error))
    return match is not None and (match[1] in REFUSES_EMPTY or not match[2])
