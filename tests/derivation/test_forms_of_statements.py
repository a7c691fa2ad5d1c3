"""The statement and the bill of materials of whence attest, read by the libraries of in-toto and CycloneDX."""

import json

import onnx
import pytest
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from in_toto_attestation.v1 import resource_descriptor_pb2, statement_pb2
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement

from command import run


@pytest.fixture(scope="module")
def written(files_of, tmp_path_factory):
    """Returns (model, statement, bill of materials) of a file that has external data and a tensor of unknown origin."""
    folder = tmp_path_factory.mktemp("forms")
    files = files_of("text")
    model = onnx.load(files.tool("dynamo", "dynamic"))
    unknown = files.model.words.weight.detach().numpy() + 1
    model.graph.initializer.append(onnx.numpy_helper.from_array(unknown, 'name "with" ünicode'))
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=0)
    run("attest", folder / "model.onnx", "--weights", files.weights, "--sidecar", files.sidecar,
        "-o", folder / "statement.json", "--bom", folder / "bom.json", code=1)
    return folder / "model.onnx", folder / "statement.json", folder / "bom.json"


def parsed_statement(text):
    return Statement.copy_from_pb(json_format.Parse(text, statement_pb2.Statement()))


def test_in_toto_accepts_the_statement(written):
    statement = parsed_statement(written[1].read_text())
    statement.validate()
    assert [each.name for each in statement.pb.subject] == ["model.onnx", "model.onnx.data"]
    assert all(len(each.digest["sha256"]) == 64 for each in statement.pb.subject)
    totals = json_format.MessageToDict(statement.pb.predicate)["totals"]
    assert totals["tensors"]["exact"] > 0 and totals["tensors"]["unaccounted"] == 1


def test_the_sources_of_the_statement_are_resource_descriptors(written):
    sources = json.loads(written[1].read_text())["predicate"]["sources"]
    assert len(sources) == 2
    for source in sources:
        parsed = json_format.ParseDict(source, resource_descriptor_pb2.ResourceDescriptor())
        ResourceDescriptor.copy_from_pb(parsed).validate()


def test_cyclonedx_accepts_the_bill_of_materials(written):
    text = written[2].read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bom = Bom.from_json(json.loads(text))
    bom.validate()
    component = bom.metadata.component
    assert component.type is ComponentType.MACHINE_LEARNING_MODEL and component.name == "model.onnx"
    assert {each.name for each in bom.components} == {"model.onnx.data", "model.safetensors", "model.whence.json"}
    assert {each.name: each.value for each in component.properties}["whence:bytes:unaccounted"] == "12800"


@pytest.mark.parametrize("output_format", [OutputFormat.JSON, OutputFormat.XML])
def test_cyclonedx_writes_the_bill_of_materials_again(written, output_format):
    """Every reference is resolved, and no two components are one."""
    bom = Bom.from_json(json.loads(written[2].read_text()))
    text = make_outputter(bom, output_format, SchemaVersion.V1_6).output_as_string()
    assert all(name in text for name in ("model.onnx.data", "model.safetensors", "model.whence.json"))


def test_the_libraries_refuse_other_forms(written):
    statement = json.loads(written[1].read_text())
    del statement["subject"][0]["digest"]
    with pytest.raises(ValueError, match="digest"):
        parsed_statement(json.dumps(statement)).validate()
    bom = json.loads(written[2].read_text())
    bom["metadata"]["component"]["type"] = "weights"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bom)) is not None
