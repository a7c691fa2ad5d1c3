"""The facts about PyTorch's operators in schema/operator_facts.cpp agree with ATen's schemas and with calls of ATen."""

import re
from pathlib import Path

import pytest
import torch

import ops.cases.detection  # noqa: F401, registers torchvision's operators

TABLE = Path(__file__).resolve().parents[2] / "schema" / "operator_facts.cpp"


def rows() -> dict[str, dict[str, str]]:
    """Returns {"aten::reshape": {"memory": "by_strides", ...}}, in the order of the table."""
    matches = re.findall(r'\{\.name = "([^"]+)"([^}]*)\}', TABLE.read_text())
    return {name: {key: value.split("::")[-1] for key, value in re.findall(r"\.(\w+) = ([\w:]+)", facts)}
            for name, facts in matches}


ROWS = rows()
SCHEMAS: dict[str, list] = {}
for schema in torch._C._jit_get_all_schemas():
    SCHEMAS.setdefault(schema.name, []).append(schema)

# Views that occur in no graph: of sparse or nested tensors, on another device, or for forward-mode autograd.
NOT_IN_GRAPHS = re.compile(r"indices$|values$|^_nested|^_ncf|^_autocast|_dual$|^_fw_|^_test|sparse|^as_tensor$|^coalesce$|"
                           r"^pin_memory$|^slice_inverse$|^_grad_sum_to_size$")


def may_return_view(schema) -> bool:
    first = schema.arguments[0] if schema.arguments else None
    return first is not None and first.alias_info is not None and not first.alias_info.is_write


def test_rows_are_sorted_and_exist_in_aten():
    assert len(ROWS) > 100, "the rows were not found"
    assert list(ROWS) == sorted(ROWS)
    assert not [name for name in ROWS if name not in SCHEMAS]


def test_every_view_of_aten_has_a_row():
    """whence finds views by name in this table."""
    views = [name for name, schemas in SCHEMAS.items() if name.startswith("aten::")
             and not NOT_IN_GRAPHS.search(name.removeprefix("aten::"))
             and any(may_return_view(schema) and str(schema.arguments[0].type) == "Tensor" for schema in schemas)]
    assert len(views) > 40, "the views were not found"
    assert not [name for name in views if "memory" not in ROWS.get(name, {})]


def test_only_in_place_operators_keep_content():
    for name, facts in ROWS.items():
        writes = any(a.alias_info is not None and a.alias_info.is_write for a in SCHEMAS[name][0].arguments)
        assert not facts.get("keeps_content") or writes, name


X = torch.arange(1.0, 9.0).reshape(2, 2, 2)
COMPLEX = torch.complex(X, X)
CALLS = {  # operators whose result may share memory with the argument, although their schemas do not declare it
    "aten::alpha_dropout": lambda x: torch.alpha_dropout(x, 0.5, False),
    "aten::atleast_1d": torch.atleast_1d,
    "aten::atleast_2d": torch.atleast_2d,
    "aten::atleast_3d": torch.atleast_3d,
    "aten::broadcast_tensors": lambda x: torch.broadcast_tensors(x, x[:1])[0],
    "aten::cpu": lambda x: x.cpu(),
    "aten::einsum": lambda x: torch.einsum("ijk->kij", x),
    "aten::meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, 0], indexing="ij")[0],
    "aten::dropout": lambda x: torch.dropout(x, 0.5, False),
    "aten::feature_alpha_dropout": lambda x: torch.feature_alpha_dropout(x, 0.5, False),
    "aten::feature_dropout": lambda x: torch.feature_dropout(x, 0.5, False),
    "aten::positive": lambda x: +x,
    "aten::to": lambda x: x.to(x.dtype),
    "aten::type_as": lambda x: x.type_as(x),
    "aten::unsafe_chunk": lambda x: torch.unsafe_chunk(x, 2)[0],
    "aten::unsafe_split": lambda x: torch.unsafe_split(x, 1)[0],
    "aten::unsafe_split_with_sizes": lambda x: torch.unsafe_split_with_sizes(x, [1, 1])[0],
}


@pytest.mark.parametrize("name", [name for name, facts in ROWS.items() if "memory" in facts])
def test_results_share_memory(name):
    declared = any(may_return_view(schema) for schema in SCHEMAS[name])
    assert declared or name in CALLS, "add a call whose result shares memory"
    if name not in CALLS:
        return
    x = X.clone()
    result = CALLS[name](x)
    assert result.data_ptr() == x.data_ptr()
    if ROWS[name]["memory"] == "argument":
        assert torch.equal(result, x) and result.shape == x.shape


IDENTITIES = {
    "aten::clone": torch.clone,
    "aten::contiguous": lambda x: x.contiguous(),
    "aten::detach": torch.detach,
    "aten::detach_copy": torch.detach_copy,
    "aten::lift": torch.ops.aten.lift,
    "aten::lift_fresh": torch.ops.aten.lift_fresh,
    "aten::lift_fresh_copy": torch.ops.aten.lift_fresh_copy,
    "aten::native_dropout": lambda x: torch.native_dropout(x, 0.5, False)[0],
    "aten::alias": torch.ops.aten.alias,
    "aten::resolve_conj": torch.resolve_conj,
    "aten::resolve_neg": torch.resolve_neg,
    "aten::_to_copy": torch.ops.aten._to_copy,
    "aten::_unsafe_view": lambda x: torch.ops.aten._unsafe_view(x, list(x.shape)),
    "aten::broadcast_to": lambda x: torch.broadcast_to(x, x.shape),
    "aten::expand": lambda x: x.expand(x.shape),
    "aten::flatten": lambda x: x.flatten(0, 0),
    "aten::narrow": lambda x: x.narrow(0, 0, len(x)),
    "aten::reshape": lambda x: x.reshape(x.shape),
    "aten::reshape_as": lambda x: x.reshape_as(x),
    "aten::slice": lambda x: x[0:],
    "aten::unflatten": lambda x: x.unflatten(0, (len(x),)),
    "aten::view": lambda x: x.view(x.shape),
    "aten::view_as": lambda x: x.view_as(x),
}


NOT_ON_CPU = ("aten::cuda",)  # moves to a device that the CPU build of PyTorch lacks


@pytest.mark.parametrize("name", [name for name, facts in ROWS.items() if "identity" in facts and name not in NOT_ON_CPU])
def test_identities_return_their_argument(name):
    call = {**CALLS, **IDENTITIES}[name]
    assert torch.equal(call(X), X)
    if "dropout" not in name:  # dropout does not accept complex tensors
        assert torch.equal(call(COMPLEX), COMPLEX)


SIZES = {
    "aten::nonzero": torch.nonzero,
    "aten::argwhere": torch.argwhere,
    "aten::masked_select": lambda x: x.masked_select(x > 0),
    "aten::_unique": lambda x: torch._unique(x)[0],
    "aten::_unique2": lambda x: torch._unique2(x)[0],
    "aten::unique_dim": lambda x: torch.ops.aten.unique_dim(x, 0)[0],
    "aten::unique_consecutive": lambda x: torch.unique_consecutive(x),
    "aten::nonzero_numpy": lambda x: torch.ops.aten.nonzero_numpy(x)[0],
    "aten::bincount": torch.bincount,
    "torchvision::nms": lambda x: torch.ops.torchvision.nms(
        torch.stack([x, x, x + 1.5, x + 1.5], 1).float(), torch.ones(4), 0.5),
    "aten::_pack_padded_sequence": lambda x: torch.nn.utils.rnn.pack_padded_sequence(
        torch.ones(4, 4, 1), x + 1, enforce_sorted=False).data,
}


@pytest.mark.parametrize("name", [name for name, facts in ROWS.items() if facts.get("data_dependent_sizes")])
def test_sizes_depend_on_content(name):
    """Two arguments of equal shape yield results of different shapes."""
    results = [SIZES[name](torch.tensor(numbers)) for numbers in ([0, 0, 0, 1], [1, 2, 0, 3])]
    assert results[0].shape != results[1].shape
