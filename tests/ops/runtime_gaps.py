"""What ONNX allows and ONNX Runtime's CPU provider does not do, each with its reason: files that are right and do not
run there. Tests accept these and no others; the lists are bounded, so that they do not grow unseen."""

import re

# Operators without a kernel for a dtype of a row, "operator dtype", or since an opset, "operator(opset)": why whence
# writes them all the same.
NO_KERNEL = {f"{name} double": "ONNX has it for float64; it has no form of operators that have kernels"
             for name in ("Acos", "Asin", "Atan", "AveragePool", "Conv", "ConvTranspose", "Det", "Erf", "MaxRoiPool",
                          "Resize", "RNN")}
NO_KERNEL |= {f"{name}(22)": "ONNX Runtime 1.32 has it up to opset 21; the operator is the same"
              for name in ("MaxRoiPool", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                           "RandomUniformLike", "RoiAlign")}
MOST_KERNELS = 18

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


def missing_kernel(error: Exception, dtype: str) -> bool:
    """True if ONNX Runtime does not load a file for want of a kernel that is listed."""
    found = re.search(r"Could not find an implementation for ((\w+)\(\d+\))", str(error))
    return found is not None and (f"{found[2]} {dtype}" in NO_KERNEL or found[1] in NO_KERNEL)


def refuses_nothing(error: Exception) -> bool:
    """True if an operator that is listed stopped a run."""
    found = re.search(r"while running (\w+) node", str(error))
    return found is not None and found[1] in NOT_OF_NOTHING
