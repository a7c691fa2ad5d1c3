"""Activation functions at zero, at thresholds and in saturation."""

import torch
import torch.nn.functional as F

from ops.case import between, case, f16, f32, f64, i32, i64

EDGES = torch.tensor([-100.0, -6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0, 25.0, 100.0])
SLOPE = "ONNX Runtime multiplies 0 by an infinite slope"

CASES = [
    case("aten::_prelu_kernel", lambda x, w: torch.ops.aten._prelu_kernel(x, w), f32(2, 3), between(0, 1, 1, 3),
         finite=SLOPE),
    case("aten::celu", lambda x: F.celu(x, 1.5), f32(2, 3)),
    case("aten::celu", lambda x: F.celu(x), f32(2, 3)),
    case("aten::celu", lambda x: F.celu(x, 0.5), f64(2, 3)),
    case("aten::elu", lambda x: F.elu(x, 1.3), f32(2, 3)),
    case("aten::elu", lambda x: torch.ops.aten.elu(x, 1.3, 2.0, 0.5), f64(2, 3), tolerance=(1e-13, 1e-13)),
    case("aten::elu", lambda x: torch.ops.aten.elu(x, 1.3, 2.0, 0.5), f32(2, 3)),
    case("aten::gelu", lambda x: F.gelu(x), EDGES, opsets=(13, 20)),
    case("aten::gelu", lambda x: F.gelu(x, approximate="tanh"), EDGES, opsets=(13, 20)),
    case("aten::gelu", lambda x: F.gelu(x), f32(2, 3), dynamic="x:0=n"),
    case("aten::glu", lambda x: F.glu(x), f32(2, 6), opsets=(13, 20)),
    case("aten::glu", lambda x: F.glu(x, 1), f32(2, 4, 3), dynamic="x:0=n,2=t"),
    case("aten::hardshrink", lambda x: F.hardshrink(x, 0.7), EDGES),
    *(case(key, function, f32(4), other_inputs=[(torch.tensor([float("nan"), float("inf"), -float("inf"), 0.5]),)])
      for key, function in {"aten::hardshrink": lambda x: F.hardshrink(x), "aten::relu": lambda x: F.relu(x),
                            "aten::softshrink": lambda x: F.softshrink(x), "aten::hardtanh": lambda x: F.hardtanh(x),
                            "aten::softmax.int": lambda x: x.softmax(0), "aten::clamp": lambda x: x.clamp(-1, 1),
                            "aten::log_softmax.int": lambda x: x.log_softmax(0)}.items()),
    case("aten::hardsigmoid", lambda x: F.hardsigmoid(x), EDGES),
    case("aten::hardswish", lambda x: F.hardswish(x), EDGES, opsets=(13, 20)),
    case("aten::hardtanh", lambda x: F.hardtanh(x, -0.5, 0.75), EDGES),
    case("aten::hardtanh", lambda x: F.hardtanh(x), i64(-5, 5, 7)),
    case("aten::leaky_relu", lambda x: F.leaky_relu(x, 0.2), EDGES),
    case("aten::log_sigmoid", lambda x: F.logsigmoid(x), EDGES),
    case("aten::logit", lambda x: torch.logit(x), between(0.1, 0.9, 5)),
    case("aten::logit", lambda x: torch.logit(x, 0.2), between(0, 1, 5)),
    case("aten::mish", lambda x: F.mish(x), EDGES, opsets=(13, 20)),
    case("aten::prelu", lambda x, w: F.prelu(x, w), f32(2, 3, 4, 5), between(0, 1, 3), dynamic="x:0=n,2=h",
         finite=SLOPE),
    case("aten::prelu", lambda x, w: F.prelu(x, w), f32(2, 3), between(0, 1, 1), finite=SLOPE),
    case("aten::prelu", torch.nn.PReLU(3), f32(2, 3, 4)),
    case("aten::prelu", torch.nn.PReLU(), torch.tensor(-2.0)),
    case("aten::relu", lambda x: F.relu(x), EDGES),
    case("aten::relu", lambda x: F.relu(x), i32(-5, 5, 7)),
    case("aten::relu", lambda x: F.relu(x), i64(-5, 5, 7)),
    case("aten::relu", lambda x: F.relu(x), torch.tensor([-3, 4], dtype=torch.int8)),
    case("aten::relu6", lambda x: torch.ops.aten.relu6(x), EDGES),
    case("aten::selu", lambda x: F.selu(x), EDGES),
    case("aten::selu", lambda x: F.selu(x), f64(2, 3), tolerance=(1e-13, 1e-13)),
    case("aten::sigmoid", lambda x: torch.sigmoid(x), EDGES),
    case("aten::sigmoid", lambda x: torch.sigmoid(x), i64(-5, 5, 7)),
    case("aten::silu", lambda x: F.silu(x), EDGES),
    case("aten::silu", lambda x: F.silu(x), f16(5), tolerance=(2e-3, 2e-3)),
    case("aten::softplus", lambda x: F.softplus(x), EDGES),
    case("aten::softplus", lambda x: F.softplus(x, 2.0, 1.5), EDGES),
    case("aten::softplus", lambda x: F.softplus(x, 0.5), f32(2, 3)),
    case("aten::softshrink", lambda x: F.softshrink(x, 0.7), EDGES),
    case("aten::tanh", lambda x: torch.tanh(x), EDGES),
    case("aten::threshold", lambda x: F.threshold(x, 0.5, -2.0), EDGES),
    case("aten::rrelu", lambda x: F.rrelu(x, 0.1, 0.5), f32(2, 5)),
    case("aten::rrelu_with_noise_functional",
         lambda x, n: torch.ops.aten.rrelu_with_noise_functional(x, n, 0.1, 0.5), f32(2, 5), f32(2, 5, seed=1)),
    case("aten::rrelu", lambda x: F.rrelu(x, 0.1, 0.5, training=True), f32(2, 5), refused="while training"),
]
