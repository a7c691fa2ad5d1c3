"""Matrices: norms, determinants, diagonals."""

import torch

from ops.case import between, boolean, case, f32, i64

TOLERANCE = (1e-4, 1e-4)
infinity = float("inf")
norm, matrix_norm = torch.linalg.norm, torch.linalg.matrix_norm


def close(key, function, *inputs, **options):
    return case(key, function, *inputs, tolerance=TOLERANCE, **options)


def of_order(order):
    return lambda x: norm(x, order)

WEIGHTS = "torch.export cannot check the weights"

CASES = [
    close("aten::linalg_matrix_norm", lambda x: matrix_norm(x[:, :0], 1), f32(2, 3)),  # 0 for an empty matrix
    close("aten::linalg_matrix_norm", lambda x: matrix_norm(x, infinity), f32(2, 3),
          other_inputs=[(torch.tensor([[1.0, -2.0, float("nan")], [infinity, 0.0, 3.0]]),)]),
    close("aten::linalg_norm", lambda x: norm(x), f32(2, 3)),
    close("aten::linalg_norm", lambda x: norm(x), f32()),
    close("aten::linalg_norm", lambda x: norm(x, 1, dim=-1), f32(2, 3)),
    close("aten::linalg_norm", lambda x: norm(x, 3), f32(5), dynamic="x:0=n"),
    close("aten::linalg_norm", lambda x: norm(x, dim=(0, 2), keepdim=True), f32(2, 3, 4)),
    *(close("aten::linalg_norm", of_order(order), f32(4, 3), dynamic="x:0=n", opsets=(13, 20),
            not_in_archives="torch.export fixes its sizes")
      for order in (1, -1, infinity, -infinity)),
    close("aten::linalg_norm", lambda x: norm(x, 2), f32(2, 3), refused="of order 2 needs singular values"),
    close("aten::linalg_norm.ord_str", lambda x: norm(x, "fro"), f32(2, 3)),
    close("aten::linalg_norm.ord_str", lambda x: norm(x, "fro", dim=(0, 1), keepdim=True), f32(2, 3, 4)),
    close("aten::linalg_norm.ord_str", lambda x: norm(x, "nuc"), f32(2, 3), refused="needs singular values"),
    close("aten::linalg_matrix_norm", lambda x: matrix_norm(x, 1), f32(2, 3, 4), dynamic="x:0=b,2=n",
          not_in_archives="torch.export fixes its sizes"),
    close("aten::linalg_matrix_norm", lambda x: matrix_norm(x, -infinity, (0, 2), True), f32(2, 3, 4)),
    close("aten::linalg_matrix_norm", lambda x: matrix_norm(x, 1, dtype=torch.float64), f32(2, 3, 4)),
    close("aten::linalg_matrix_norm", lambda x: matrix_norm(x, -2), f32(3, 4), refused="of order -2"),
    close("aten::linalg_matrix_norm.str_ord", lambda x: matrix_norm(x), f32(2, 3, 4), dynamic="x:1=n"),
    close("aten::linalg_matrix_norm.str_ord", lambda x: matrix_norm(x, "nuc"), f32(3, 4), refused="singular values"),
    close("aten::nuclear_norm", lambda x: torch.ops.aten.nuclear_norm(x), f32(3, 4), refused="singular values"),
    close("aten::nuclear_norm.dim", lambda x: torch.ops.aten.nuclear_norm(x, [0, 1]), f32(3, 4),
          refused="singular values"),
    close("aten::det", lambda x: torch.ops.aten.det(x), f32(3, 3), recorded_as="aten::linalg_det"),
    close("aten::linalg_det", lambda x: torch.det(x), f32(2, 3, 5, 5), dynamic="x:0=b"),
    close("aten::linalg_det", lambda x: torch.linalg.det(x), f32(2, 4, 4), opsets=(13, 22)),
    close("aten::_linalg_det", lambda x: torch.ops.aten._linalg_det(x)[0], f32(2, 4, 4)),
    close("aten::_linalg_det", lambda x: torch.ops.aten._linalg_det(x), f32(2, 4, 4), refused="no LU decomposition"),
    close("aten::logdet", lambda x: torch.logdet(x @ x.mT), f32(2, 4, 4)),
    case("aten::trace", lambda x: torch.trace(x), f32(3, 5), dynamic="x:0=n,1=m", opsets=(13, 20)),
    case("aten::trace", lambda x: torch.trace(x), i64(-9, 9, 4, 3)),
    case("aten::diag_embed", lambda x: torch.diag_embed(x), f32(2, 3), dynamic="x:0=b,1=n", opsets=(13, 20)),
    case("aten::diag_embed", lambda x: torch.diag_embed(x, 2), i64(-9, 9, 2, 3)),
    case("aten::diag_embed", lambda x: torch.diag_embed(x, -1, 0, 2), f32(2, 3), dynamic="x:1=n"),
    case("aten::diag_embed", lambda x: torch.diag_embed(x, 1, 2, 0), f32(2, 3)),
    case("aten::diag_embed", lambda x: torch.diag_embed(x), boolean(4)),
    close("aten::_linalg_slogdet", lambda x: torch._linalg_slogdet(x)[:2], f32(2, 3, 3)),
    close("aten::linalg_slogdet", lambda x: torch.linalg.slogdet(x), f32(2, 3, 3), dynamic="x:0=n"),
    close("aten::cov", lambda x: torch.cov(x), f32(3, 6), dynamic="x:1=n", not_in_archives=WEIGHTS),
    close("aten::cov", lambda x: torch.cov(x, correction=0), f32(6), not_in_archives=WEIGHTS),
    close("aten::cov", lambda x, f, a: torch.cov(x, fweights=f, aweights=a), f32(3, 6), i64(1, 4, 6),
          between(0.5, 1.5, 6), not_in_archives=WEIGHTS),
    close("aten::corrcoef", lambda x: torch.corrcoef(x), f32(3, 6), dynamic="x:0=n,1=m", not_in_archives=WEIGHTS,
          not_at=dict.fromkeys(("n=1", "m=n=1"), "PyTorch drops both axes of a single variable")),
    close("aten::corrcoef", lambda x: torch.corrcoef(x), f32(6), not_in_archives=WEIGHTS),
    close("aten::diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y, 1), f32(4, 5), f32(4)),
    close("aten::diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, torch.ones(4)) + y, f32(6, 4), f32(4)),
    close("aten::diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y, -2, 0, 2), f32(4, 2, 5), f32(2, 2)),
    close("aten::diagonal_scatter", lambda x, y: torch.diagonal_scatter(x, y), f32(4, 4), f32(4),
          dynamic="x:0=n,1=n y:0=n"),
    # the diagonal of a single row is empty
    close("aten::diagonal_scatter", lambda x: torch.diagonal_scatter(x, x.diagonal(-1) * 2, -1), f32(4, 6), dynamic="x:0=n,1=m"),
]
