"""What ONNX allows and ONNX Runtime's CPU provider does not do, each with its reason: files that are right and do not
run there. Tests accept these and no others; the lists are bounded, so that they do not grow unseen."""

import re
from dataclasses import dataclass

ONLY_FORM = "ONNX has it for this dtype; it has no form of operators that have kernels"
NO_INTEGERS = "ONNX has it for int64; images are seldom of that"
UP_TO_21 = "ONNX Runtime 1.32 has it up to opset 21; the operator is the same"
UP_TO_27 = "ONNX Runtime 1.32 has it up to opset 27; the operator is the same"


@dataclass(frozen=True)
class Gap:
    """An operator that ONNX Runtime does not run for a dtype of a row, or since an opset; test_runtime_gaps.py shows it
    by a file of one node."""

    operator: str
    dtype: str  # a key of matrix.DTYPES, or "" where every dtype has the gap
    opset: int  # the first one with the gap
    reason: str  # why whence writes such a file all the same
    node: str  # in ONNX's text form: inputs => outputs: node
    says: str = ""  # what a run says, as a regular expression; "" where the file is not even loaded

    @property
    def error(self) -> str:
        if self.says:
            return f"while running {self.operator} node.*{self.says}"
        return (rf"(Could not find an implementation|Failed to find kernel) for "
                rf"{self.operator}\({self.opset if not self.dtype else '[0-9]+'}\)")


def double(operator: str, node: str, says: str = "") -> Gap:
    return Gap(operator, "double", 20, ONLY_FORM, node, says)


def half(operator: str, node: str, says: str) -> Gap:
    return Gap(operator, "half", 20, ONLY_FORM, node, says)


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
MOST_GAPS = 32

# Operators that refuse a tensor without elements, although PyTorch computes something: why whence leaves it at that.
NOT_OF_NOTHING = {
    "Attention": "its kernel wants a batch, queries and keys",
    "ConvTranspose": "its kernel computes the sizes of the result backwards",
    "GlobalAveragePool": "its kernel takes no mean of no pixels, which is NaN in PyTorch",
    "Reshape": "a 0 beside a -1 leaves open what -1 is; to compute every size would cost nodes in every model",
}
MOST_OF_NOTHING = 4

# Operators with which ONNX Runtime 1.32 ends the process on a tensor without elements: these are not even run on one.
ABORTS_ON_NOTHING = {"Einsum", "GRU", "InstanceNormalization", "LSTM", "RNN"}


def lacks(error: Exception, dtype: str) -> bool:
    """True if ONNX Runtime does not load or run a file for want of what is listed."""
    return any(gap.dtype in ("", dtype) and re.search(gap.error, str(error), re.DOTALL) for gap in GAPS)


def refuses_nothing(error: Exception) -> bool:
    """True if an operator that is listed stopped a run. A node without a name is one of those of which ONNX Runtime makes
    an Attention whose form it has no kernel for; whence names every node."""
    found = re.search(r"while running (\w+) node\. Name:'([^']*)'", str(error))
    return found is not None and (found[1] in NOT_OF_NOTHING or not found[2])
