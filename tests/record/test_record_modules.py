"""The module and parameter tables of `whence record`, compared with named_modules() and named_parameters() by row."""

import functools
import json

import jsonschema
import pytest
import torch

import command
from models import zoo
from record.test_record_scopes import recorded

pytestmark = pytest.mark.parametrize("name", zoo.MODELS)


@functools.cache
def model(name: str) -> torch.nn.Module:
    return zoo.MODELS[name].model()


def elements(module: torch.nn.Module, trainable_only: bool = False) -> int:
    return sum(tensor.numel() for tensor in module.parameters() if tensor.requires_grad or not trainable_only)


def expected_modules(root: torch.nn.Module) -> list[dict]:
    paths = {id(module): path for path, module in root.named_modules()}
    aliases = {}
    for path, module in root.named_modules(remove_duplicate=False):
        if path != paths[id(module)]:
            aliases.setdefault(id(module), []).append(path)
    rows = []
    for path, module in root.named_modules():
        cls = type(module)
        children = list(dict.fromkeys(paths[id(child)] for child in module._modules.values() if child is not None))
        rows.append({
            "path": path, "type": f"{cls.__module__}.{cls.__name__}",
            "standard": cls.__module__.startswith("torch.nn."),
            "parent": None if path == "" else path.rpartition(".")[0], "aliases": aliases.get(id(module), []),
            "children": children, "level": path.count(".") + 1 if path else 0,
            "parameters_total": elements(module), "parameters_trainable": elements(module, trainable_only=True),
        })
    return rows


def recorded_modules(name: str) -> list[dict]:
    rows = recorded(name).table("modules")
    paths = [row["path"] for row in rows]
    return [{**row, "parent": None if row["parent"] < 0 else paths[row["parent"]],
             "children": [paths[child] for child in row["children"]]} for row in rows]


def test_module_table_equals_named_modules(name):
    expected = expected_modules(model(name))
    got = [{key: row[key] for key in expected[0]} for row in recorded_modules(name)]
    assert [row["path"] for row in got] == [row["path"] for row in expected]
    for row, expected_row in zip(got, expected, strict=True):
        assert row == expected_row


def test_own_parameters_equal_named_parameters(name):
    sidecar = recorded(name)
    parameters = sidecar.table("parameters")
    by_name = {alias: row for row in parameters for alias in [row["name"], *row["aliases"]]}
    for path, tensor in model(name).named_parameters(remove_duplicate=False):
        row = by_name[path]
        assert (row["kind"], row["trainable"], row["shape"], row["dtype"]) == (
            "parameter", tensor.requires_grad, list(tensor.shape), str(tensor.dtype).removeprefix("torch."))
    persistent = model(name).state_dict(keep_vars=True).keys()
    for path, tensor in model(name).named_buffers(remove_duplicate=False):
        row = by_name[path]
        assert (row["kind"], row["shape"]) == ("buffer", list(tensor.shape))
        assert row["persistent"] or path not in persistent
    canonical = [path for path, _ in model(name).named_parameters()]
    assert [row["name"] for row in parameters if row["kind"] == "parameter"] == canonical
    for row in sidecar.table("modules"):
        module = model(name).get_submodule(row["path"])
        own = {f"{row['path']}.{key}".lstrip(".") for key, _ in module.named_parameters(recurse=False)}
        listed = {alias for number in row["own_parameters"] if parameters[number]["kind"] == "parameter"
                  for alias in [parameters[number]["name"], *parameters[number]["aliases"]]}
        assert own <= listed


def test_sidecar_follows_its_json_schema(name):
    schema = json.loads((command.ROOT / "schema" / "sidecar.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(recorded(name).raw)
