"""Norms of every order, distances, products and differences."""

import torch
import torch.nn.functional as F

from ops.case import boolean, case, f16, f32, i64

TOLERANCE = (1e-4, 1e-4)
ORDERS = [0, 1, 2, 3, 0.5, float("inf"), float("-inf")]
aten = torch.ops.aten


def close(key, function, *inputs, **options):
    return case(key, function, *inputs, tolerance=TOLERANCE, **options)


def of_order(order):
    return lambda x: torch.linalg.vector_norm(x, order, 1)


SPECIAL = torch.tensor([[1, float("nan"), -2, 0], [0, -float("inf"), 3, 1], [2, 1, 0, -float("nan")]])

CASES = [
    close("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, 0), f32(),
          other_inputs=[(torch.tensor(0.0),)]),
    *(close("aten::linalg_vector_norm", of_order(order), f32(3, 4), other_inputs=[(SPECIAL,)]) for order in ORDERS[1:]),
    *(case("aten::renorm", lambda x, p=p, dim=dim: torch.renorm(x, p, dim, 1.5), f32(3, 4, 2), opsets=(13, 20))
      for p, dim in ((2, 0), (1, -1))),
    case("aten::renorm", lambda x: torch.renorm(x, float("inf"), 1, 0.7), f32(3, 4), dynamic="x:0=n"),
    *(close("aten::linalg_vector_norm", of_order(order), f32(3, 4)) for order in ORDERS),
    close("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, 2, (0, -1), True), f32(2, 3, 4),
          dynamic="x:0=n", opsets=(13, 20)),
    close("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x), f32(2, 3)),
    close("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x), f32()),
    close("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, dtype=torch.float32), f16(2, 3)),
    close("aten::norm.Scalar", lambda x: aten.norm(x, 3), f32(2, 3)),
    close("aten::norm.ScalarOpt_dim", lambda x: aten.norm(x, None, [1], True), f32(2, 3)),
    close("aten::norm.ScalarOpt_dtype", lambda x: aten.norm(x, 1, dtype=torch.float64), f32(2, 3)),
    close("aten::norm.ScalarOpt_dim_dtype", lambda x: aten.norm(x, 2, [1], False, dtype=torch.float64), f32(2, 3)),
    close("aten::frobenius_norm.dim", lambda x: torch.frobenius_norm(x, [0, 1]), f32(2, 3, 4)),
    close("aten::cdist", lambda x, y: torch.cdist(x, y), f32(2, 3, 4), f32(2, 5, 4, seed=1), dynamic="x:1=t y:1=s"),
    close("aten::cdist", lambda x, y: torch.cdist(x, y, 1), f32(3, 4), f32(5, 4, seed=1)),
    close("aten::_cdist_forward", lambda x, y: aten._cdist_forward(x, y, 3.0, None), f32(3, 4), f32(5, 4, seed=1)),
    close("aten::pairwise_distance", lambda x, y: F.pairwise_distance(x, y), f32(3, 4), f32(3, 4, seed=1)),
    close("aten::pairwise_distance", lambda x, y: F.pairwise_distance(x, y), i64(-9, 9, 3, 4), i64(-9, 9, 3, 4)),
    close("aten::pairwise_distance", lambda x, y: F.pairwise_distance(x, y, 1, 0.1, True), f32(3, 4), f32(4, seed=1)),
    close("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y), f32(3, 4), f32(3, 4, seed=1),
          dynamic="x:0=n y:0=n"),
    close("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -1), f32(3, 1, 4), f32(5, 4, seed=1)),
    # Along an axis that one operand broadcasts over or lacks.
    close("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -2), f32(1, 2, 3), f32(2, 1, 3, seed=1)),
    close("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 0), f32(4), f32(3, 4, seed=1), dynamic="y:0=n"),
    case("aten::linalg_cross", lambda x, y: torch.linalg.cross(x, y), f32(2, 3), f32(2, 3, seed=1)),
    case("aten::linalg_cross", lambda x, y: torch.linalg.cross(x, y, dim=0), f32(3, 4), f32(3, 1, seed=1)),
    case("aten::cross", lambda x, y: torch.ops.aten.cross(x, y, None), f32(2, 3, 3), f32(2, 3, 3, seed=1)),
    case("aten::cross", lambda x, y: torch.cross(x, y, 0), f32(3, 4), f32(3, 4, seed=1)),
    case("aten::diff", lambda x: torch.diff(x), f32(2, 5), dynamic="x:0=n,1=t"),
    case("aten::diff", lambda x: torch.diff(x, n=2, dim=0), i64(-9, 9, 5, 2)),
    case("aten::diff", lambda x, p: torch.diff(x, prepend=p, append=p), i64(0, 9, 2, 5), i64(0, 9, 2, 1)),
    case("aten::diff", lambda x: torch.diff(x), boolean(7)),
    close("aten::dist", lambda x, y: torch.dist(x, y), f32(2, 3), f32(3, seed=1)),
    close("aten::dist", lambda x, y: torch.dist(x, y, 3), f32(2, 3), f32(2, 3, seed=1)),
    close("aten::dist", lambda x, y: torch.dist(x, y), f32(), f32(seed=1)),
    case("aten::diff", lambda x, p: torch.diff(x, n=0, prepend=p), f32(2, 3), f32(2, 1)),
    case("aten::pdist", lambda x: F.pdist(x), f32(4, 3)),
    case("aten::_pdist_forward", lambda x: torch.ops.aten._pdist_forward(x, 1.0), f32(4, 3)),
    case("aten::cdist", lambda x, y: torch.cdist(x, y), f32(4, 5), torch.zeros(0, 3, 5)),
    case("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, dim=0), f32(), f32(seed=1)),
    case("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, dim=0, keepdim=True), f32()),
]
