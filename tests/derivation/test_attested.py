"""whence validate --attested: a statement is checked against the file that it is about."""

import json
import shutil

import onnx
import pytest
import whence

from command import run, run_json


VALUES = {"name": "model.values.safetensors", "digest": {"sha256": 64 * "1"}}
NUMBERS = {"runs": 1, "calls": 6, "compared": 5, "tolerance": 1e-5, "first_difference": None}


@pytest.fixture
def attested(files_of, tmp_path):
    files = files_of("series")
    path = tmp_path / "model.onnx"
    shutil.copy(files.export("dynamo"), path)
    run("attest", path, "--weights", files.weights, "--sidecar", files.sidecar, "-o", tmp_path / "statement.json")
    return path, tmp_path / "statement.json"


def messages(path, statement, code=1):
    found = run_json("validate", path, "--attested", statement, "--allow", "re:V[1-3]..", code=code)["shortfalls"]
    return [(each["code"], each["message"]) for each in found]


def test_v504_the_attested_file_passes(attested):
    path, statement = attested
    assert messages(path, statement, code=0) == []
    assert whence.validate(path, attested=statement, allowed=["re:V[1-3].."]).clean
    assert "V504" in run("validate", path, "--attested", statement, "--format", "junit", code=None).stdout


def test_v504_a_renamed_file_passes_and_a_changed_one_does_not(attested, tmp_path):
    path, statement = attested
    shutil.copy(path, tmp_path / "renamed.onnx")
    assert messages(tmp_path / "renamed.onnx", statement, code=0) == []
    model = onnx.load(path)
    model.producer_name = "somebody else"
    onnx.save(model, path)
    assert messages(path, statement) == [("V504", "the statement is about another file")]


def test_v504_a_changed_data_file_is_found(files_of, tmp_path):
    files = files_of("series")
    path = tmp_path / "model.onnx"
    onnx.save(onnx.load(files.export("dynamo")), path, save_as_external_data=True, location="model.data", size_threshold=0)
    run("attest", path, "--weights", files.weights, "--sidecar", files.sidecar, "-o", tmp_path / "statement.json")
    assert messages(path, tmp_path / "statement.json", code=0) == []
    data = bytearray((tmp_path / "model.data").read_bytes())
    data[5] ^= 1
    (tmp_path / "model.data").write_bytes(data)
    assert messages(path, tmp_path / "statement.json") == [
        ("V504", "the statement is about another content of the data file 'model.data'")]
    # A refit with this statement would keep what was changed.
    assert "E0206" in run("refit", path, "--statement", tmp_path / "statement.json", "--weights", files.weights, code=None).stderr


def test_v504_unaccounted_tensors_and_nodes_are_counted(files_of, tmp_path):
    files = files_of("series")
    path = files.export("dynamo")
    run("attest", path, "--weights", files.weights, "-o", tmp_path / "statement.json", code=1)
    *_, nodes = messages(path, tmp_path / "statement.json")
    count = len(onnx.load(path).graph.node)
    assert nodes[0] == "V504" and nodes[1].startswith(f"{count} nodes are unaccounted")
    statement = json.loads((tmp_path / "statement.json").read_text())
    for row in statement["predicate"]["tensors"]:
        row["verdict"] = "exact"
    statement["predicate"]["tensors"][0].update(verdict="unaccounted", modules=["gru"])
    statement["predicate"]["tensors"][1].update(verdict="something", modules=[])
    (tmp_path / "statement.json").write_text(json.dumps(statement))
    found = messages(path, tmp_path / "statement.json")
    assert ("V504", "2 tensors are unaccounted in gru") in found
    assert ("V504", "the statement's totals are not those of its rows") in found


@pytest.mark.parametrize("first, message", [
    ({"module": "gru", "operation": "aten::gru", "node": "n"}, "the file computes other numbers, first in gru"),
    ({}, "the file computes other numbers")])
def test_v504_other_numbers_are_an_error(attested, first, message):
    path, statement = attested
    content = json.loads(statement.read_text())
    content["predicate"]["sources"].append(VALUES)
    content["predicate"]["numbers"] = dict(NUMBERS)
    statement.write_text(json.dumps(content))
    assert messages(path, statement, code=0) == []
    content["predicate"]["numbers"]["first_difference"] = first
    statement.write_text(json.dumps(content))
    assert messages(path, statement) == [("V504", message)]


@pytest.mark.parametrize("change, message", [
    (lambda predicate: predicate.update(tensors=[], nodes=[]), "does not list each tensor and node"),
    (lambda predicate: predicate["nodes"].pop(), "does not list each tensor and node"),
    (lambda predicate: predicate.pop("totals"), "totals are not those of its rows"),
    (lambda predicate: predicate["totals"]["nodes"].update(operation=-1), "totals are not those of its rows"),
    (lambda predicate: predicate.update(numbers={}), "compares no numbers"),
    (lambda predicate: predicate.update(numbers={"runs": 0, "compared": 0}), "compares no numbers"),
    (lambda predicate: predicate.update(differences=["the file has 2 outputs, the program 1"]), "has other results"),
    (lambda predicate: predicate["absent"].append({"name": "a", "dtype": "float32", "dims": [1], "has_effect": True}),
     "does not hold 1 parameter")])
def test_v504_a_statement_with_parts_removed_or_changed_does_not_pass(attested, change, message):
    path, statement = attested
    content = json.loads(statement.read_text())
    change(content["predicate"])
    statement.write_text(json.dumps(content))
    assert any(code == "V504" and message in text for code, text in messages(path, statement))


def put_again(rows):
    """Lists the first row in place of the second."""
    rows[1] = dict(rows[0])


def first_exact(predicate):
    return next(row for row in predicate["tensors"] if row["verdict"] == "exact")


@pytest.mark.parametrize("change, message", [
    (lambda predicate: put_again(predicate["tensors"]), "does not list the tensor"),
    (lambda predicate: put_again(predicate["nodes"]), "does not list the node"),
    (lambda predicate: predicate["tensors"].reverse(), "does not list the tensor"),
    (lambda predicate: predicate["nodes"][0].update(op_type="Other"), "does not list the node"),
    (lambda predicate: predicate["tensors"][0].update(dtype="float64"), "does not list the tensor"),
    (lambda predicate: predicate["tensors"][0]["dims"].append(1), "does not list the tensor"),
    (lambda predicate: predicate["tensors"][0].update(bytes=3), "does not list the tensor"),
    (lambda predicate: predicate["totals"]["bytes"].update(exact=1), "totals are not those of its rows"),
    (lambda predicate: predicate["tensors"][0].update(verdict="operation"), "1 tensor is unaccounted"),
    (lambda predicate: predicate["nodes"][0].update(verdict="exact"), "1 node is unaccounted"),
    (lambda predicate: first_exact(predicate).pop("derivation"), "has no derivation of the tensor"),
    (lambda predicate: predicate["sources"].pop(), "does not name the checkpoint"),
    (lambda predicate: predicate["sources"].pop(0), "does not name the checkpoint"),
    (lambda predicate: predicate["sources"].__setitem__(0, predicate["sources"][1]), "does not name the checkpoint"),
    (lambda predicate: predicate.update(numbers=NUMBERS), "does not name the checkpoint")])
def test_v504_rows_and_sources_must_be_those_of_the_file(attested, change, message):
    path, statement = attested
    content = json.loads(statement.read_text())
    change(content["predicate"])
    statement.write_text(json.dumps(content))
    assert any(code == "V504" and message in text for code, text in messages(path, statement))


@pytest.mark.parametrize("change, message", [
    ({"tolerance": 1e9}, "with which they prove nothing"),
    ({"tolerance": 0}, "with which they prove nothing"),
    ({"tolerance": None}, "with which they prove nothing"),
    ({"calls": 4}, "compares no numbers"),
    ({"runs": 0.5}, "compares no numbers")])
def test_v504_numbers_must_compare_something(attested, change, message):
    path, statement = attested
    content = json.loads(statement.read_text())
    content["predicate"]["sources"].append(VALUES)
    content["predicate"]["numbers"] = {**NUMBERS, **change}
    statement.write_text(json.dumps(content))
    assert any(message in text for _, text in messages(path, statement))


@pytest.mark.parametrize("change", [
    lambda predicate: predicate.pop("sources"),
    lambda predicate: predicate.update(sources=[]),
    lambda predicate: predicate["sources"][0].pop("digest"),
    lambda predicate: predicate["sources"][0]["digest"].update(sha256="1"),
    lambda predicate: predicate.pop("differences"),
    lambda predicate: predicate.update(differences={}),
    lambda predicate: predicate.update(differences=[1]),
    lambda predicate: predicate.pop("absent"),
    lambda predicate: predicate.update(absent=None),
    lambda predicate: predicate.update(absent=["bias"]),
    lambda predicate: first_exact(predicate).update(derivation={})])
def test_a_statement_that_attest_does_not_write_is_corrupt(attested, change):
    path, statement = attested
    content = json.loads(statement.read_text())
    change(content["predicate"])
    statement.write_text(json.dumps(content))
    assert "E0204" in run("validate", path, "--attested", statement, code=None).stderr


@pytest.mark.parametrize("written, twice", [
    ('"differences":[]', '"differences":["other results"],"differences":[]'),
    ('"verdict":"exact"', '"verdict":"unaccounted","verd\\u0069ct":"exact"')])
def test_a_key_that_is_written_twice_is_refused_by_all_readers(files_of, attested, written, twice):
    path, statement = attested
    text = statement.read_text()
    assert written in text
    statement.write_text(text.replace(written, twice, 1))
    json.loads(statement.read_text())  # other readers accept it
    for command in (["validate", path, "--attested", statement],
                    ["weights", path, "--statement", statement, "-o", path.with_name("out.safetensors")],
                    ["refit", path, "--statement", statement, "--weights", files_of("series").weights]):
        assert "E0204" in run(*command, code=None).stderr


def test_a_refit_refuses_rows_at_another_place(files_of, attested):
    path, statement = attested
    content = json.loads(statement.read_text())
    content["predicate"]["tensors"].reverse()
    statement.write_text(json.dumps(content))
    assert "E0204" in run("refit", path, "--statement", statement, "--weights", files_of("series").weights, code=None).stderr


@pytest.mark.parametrize("change", [{"_type": "https://in-toto.io/Statement/v9"}, {"predicateType": "https://slsa.dev/provenance/v1"}])
def test_a_statement_of_another_kind_is_refused(attested, change):
    path, statement = attested
    statement.write_text(json.dumps({**json.loads(statement.read_text()), **change}))
    assert "E0203" in run("validate", path, "--attested", statement, code=None).stderr


def test_subjects_have_no_order(attested):
    path, statement = attested
    content = json.loads(statement.read_text())
    content["subject"].insert(0, {"name": "readme", "digest": {"sha256": 64 * "0"}})
    statement.write_text(json.dumps(content))
    assert messages(path, statement, code=0) == []


@pytest.mark.parametrize("text", ["[]", "{}", '{"subject": [], "predicate": {"tensors": []}}', '{"subject": 1, "predicate": 2}'])
def test_another_file_is_no_statement(attested, text):
    path, statement = attested
    statement.write_text(text)
    assert "E0203" in run("validate", path, "--attested", statement, code=None).stderr


def test_a_subject_without_digest_is_corrupt(attested):
    path, statement = attested
    content = json.loads(statement.read_text())
    content["subject"][0]["digest"] = {"sha512": "1"}
    statement.write_text(json.dumps(content))
    assert "E0204" in run("validate", path, "--attested", statement, code=None).stderr


def test_the_settings_of_a_team_name_the_statement(attested, tmp_path):
    path, _ = attested
    (tmp_path / "gate.json").write_text(json.dumps({"attested": "statement.json", "allow": ["re:V[1-3].."]}))
    run("validate", path, "--config", tmp_path / "gate.json")
    with path.open("ab") as file:
        file.write(b"\x12\x01a")  # another producer name
    assert "V504" in run("validate", path, "--config", tmp_path / "gate.json", code=1).stdout
