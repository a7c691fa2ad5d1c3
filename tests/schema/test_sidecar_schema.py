"""With an independent validator, the JSON Schema accepts the frozen files and refuses invalid files."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

SCHEMA_FOLDER = Path(__file__).resolve().parents[2] / "schema"
FIXTURES = sorted(SCHEMA_FOLDER.glob("fixtures/v*/*.whence.json"))


@pytest.fixture(scope="module")
def validator():
    schema = json.loads((SCHEMA_FOLDER / "sidecar.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def sample():
    return json.loads((SCHEMA_FOLDER / "fixtures/v1.4/sample.whence.json").read_text())


def test_frozen_files_exist():
    assert FIXTURES


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_frozen_files_are_valid(validator, path):
    assert [error.message for error in validator.iter_errors(json.loads(path.read_text()))] == []


def test_unknown_fields_of_a_newer_minor_version_are_valid(validator):
    newer = sample() | {"version": "1.4", "matches": {"any": "thing"}}
    assert validator.is_valid(newer)


INVALID_VALUES = {
    "format": "other",
    "version": "2.0",
    "program_digest": "F375A8A5462B5E2E91AB43F726D2E657",
    "ran": 1,
    "strings": ["twice", "twice"],
    "source/kind": "pickle",
    "source/file": "/home/somebody/model.pt",
    "modules/columns": ["path"],
    "modules/rows/0": [0],
    "modules/rows/0/0": "path",
    "modules/rows/0/6": 0,
    "symbols/rows/0/4": "length",
    "symbols/rows/1/5": 3,
    "constraints": [],
    "places/0": [2, 2],
    "places/0/2": 0,
    "scopes/rows/0/0": -2,
    "parameters/rows/0/2": "weight",
    "parameters/rows/0/5": "float31",
    "parameters/rows/0/11": "not a digest",
    "constants/rows/0/4": "not base64!",
    "values/rows/0/3": [[2]],
    "values/rows/0/4": "somewhere",
    "outputs/rows/0/1": {"value": 1, "float": 1.0},
    "operations/rows/0/5": [1, {"weights": 1}],
    "operations/rows/0/5/1": "text",
}


@pytest.mark.parametrize("path", INVALID_VALUES)
def test_invalid_values_are_refused(validator, path):
    document = copy.deepcopy(sample())
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    parent = document
    for part in parents:
        parent = parent[part]
    parent[last] = INVALID_VALUES[path]
    assert not validator.is_valid(document)


@pytest.mark.parametrize("field", sorted(set(sample()) - {"constraints", "places"}))
def test_every_field_is_required(validator, field):
    document = sample()
    del document[field]
    assert not validator.is_valid(document)
