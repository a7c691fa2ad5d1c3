"""Linear systems, inverses, Cholesky factors."""

import torch

from ops.case import case, f32, f64

TOLERANCE = (1e-3, 1e-4)
solve, inv, triangular = torch.linalg.solve, torch.linalg.inv, torch.linalg.solve_triangular


def close(key, function, *inputs, **options):
    return case(key, function, *inputs, tolerance=TOLERANCE, **options)


def zero_pivot(x):
    """Returns a well-conditioned matrix with a first pivot of 0, so that rows must be exchanged."""
    size = x.shape[-1]
    first = torch.zeros(size, size)
    first[0, 0] = 1
    return x * (1 - first) + 4 * torch.eye(size).roll(1, -1)


def factor(x):
    """Returns a full matrix with a diagonal far from 0; only one triangle is read."""
    return x + 4 * torch.eye(x.shape[-1])


def definite(x):
    """Returns a symmetric positive definite matrix."""
    return x @ x.mT + torch.eye(x.shape[-1])


CASES = [
    close("aten::linalg_inv", lambda x: inv(zero_pivot(x)), f32(3, 3), opsets=(13, 20, 23)),
    close("aten::linalg_inv", lambda x: inv(zero_pivot(x)), f32(2, 5, 4, 4), dynamic="x:0=b"),
    close("aten::linalg_inv", lambda x: inv(x @ x.mT + 1), f32(3, 3), dynamic="x:0=n,1=n",
          not_in_archives="torch.export fixes its sizes"),
    close("aten::linalg_inv", lambda x: inv(zero_pivot(x).double()), f64(6, 6)),
    close("aten::linalg_inv", lambda x: inv(x), f32(1, 1)),
    close("aten::inverse", lambda x: torch.ops.aten.inverse(zero_pivot(x)), f32(3, 3), recorded_as="aten::linalg_inv"),
    close("aten::linalg_inv_ex", lambda x: torch.linalg.inv_ex(zero_pivot(x))[0], f32(2, 3, 3)),
    close("aten::linalg_inv_ex", lambda x: torch.linalg.inv_ex(zero_pivot(x)), f32(3, 3), refused="are singular"),
    close("aten::linalg_solve", lambda a, b: solve(zero_pivot(a), b), f32(3, 3), f32(3, 2)),
    close("aten::linalg_solve", lambda a, b: solve(zero_pivot(a), b), f32(2, 3, 3), f32(2, 3, 4),
          dynamic="a:0=n b:0=n"),
    close("aten::linalg_solve", lambda a, b: solve(zero_pivot(a), b), f32(2, 3, 3), f32(2, 3)),
    close("aten::linalg_solve", lambda a, b: solve(zero_pivot(a), b), f32(4, 4), f32(4)),
    close("aten::linalg_solve", lambda a, b: solve(zero_pivot(a), b, left=False), f32(2, 3, 3), f32(2, 4, 3)),
    close("aten::linalg_solve", lambda a, b: solve(zero_pivot(a), b), f32(3, 3), f32(2, 3, 4),
          refused="broadcasting of matrices"),
    close("aten::linalg_solve_ex", lambda a, b: torch.linalg.solve_ex(zero_pivot(a), b)[0], f32(3, 3), f32(3, 2)),
    close("aten::_linalg_solve_ex", lambda a, b: torch.ops.aten._linalg_solve_ex(zero_pivot(a), b)[0], f32(3, 3),
          f32(3, 2)),
    close("aten::_linalg_solve_ex", lambda a, b: torch.ops.aten._linalg_solve_ex(zero_pivot(a), b), f32(3, 3),
          f32(3, 2), refused="no LU decomposition"),
    close("aten::linalg_solve_triangular", lambda a, b: triangular(factor(a), b, upper=False), f32(4, 4), f32(4, 3),
          opsets=(13, 20, 23)),
    close("aten::linalg_solve_triangular", lambda a, b: triangular(factor(a), b, upper=True), f32(2, 3, 3),
          f32(2, 3, 1), dynamic="a:0=n b:0=n"),
    close("aten::linalg_solve_triangular", lambda a, b: triangular(factor(a), b, upper=True, left=False), f32(4, 4),
          f32(3, 4)),
    close("aten::linalg_solve_triangular",
          lambda a, b: triangular(a, b, upper=False, left=False, unitriangular=True), f32(3, 3), f32(2, 3)),
    close("aten::linalg_cholesky", lambda x: torch.linalg.cholesky(definite(x)), f32(4, 4), opsets=(13, 20, 23)),
    close("aten::linalg_cholesky", lambda x: torch.linalg.cholesky(definite(x), upper=True), f32(2, 3, 3),
          dynamic="x:0=n"),
    close("aten::cholesky", lambda x: torch.cholesky(definite(x).double()), f32(5, 5)),
    close("aten::linalg_cholesky_ex", lambda x: torch.linalg.cholesky_ex(definite(x))[0], f32(1, 1)),
    close("aten::cholesky_solve", lambda b, a: torch.cholesky_solve(b, factor(a)), f32(4, 3), f32(4, 4),
          opsets=(13, 20, 23)),
    close("aten::cholesky_solve", lambda b, a: torch.cholesky_solve(b, factor(a), upper=True), f32(2, 3, 1),
          f32(2, 3, 3), dynamic="b:0=n a:0=n"),
    close("aten::cholesky_solve", lambda b, a: torch.cholesky_solve(b, factor(a)), f32(2, 4, 3), f32(4, 4),
          refused="broadcasting of matrices"),
    close("aten::cholesky_inverse", lambda x: torch.cholesky_inverse(factor(x)), f32(4, 4)),
    close("aten::cholesky_inverse", lambda x: torch.cholesky_inverse(factor(x), upper=True), f32(2, 3, 3),
          dynamic="x:0=n"),
    close("aten::linalg_cholesky_ex", lambda x: torch.linalg.cholesky_ex(definite(x)), f32(3, 3),
          refused="are positive definite"),
    *(close("aten::triangular_solve", lambda b, a, options=options: torch.triangular_solve(b, factor(a), **options),
            f32(2, 4, 3), f32(2, 4, 4))
      for options in ({}, {"upper": False}, {"transpose": True}, {"upper": False, "transpose": True},
                      {"unitriangular": True})),
]
