"""whence.record warns about programs that PyTorch cannot save, suggests a remedy, and writes all other files."""

import json
import warnings

import pytest
import torch
import whence
from whence.values import value_file


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Branching(Small):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: x - 1, (x,))


class ThroughData(Small):
    """torch.export turns its ``.data`` into a constant without bytes."""

    def forward(self, x):
        self.linear.bias.data.add_(x[0])
        return self.linear(x)


X = (torch.ones(2, 4),)


def insert_nodes(program):
    """Adds nodes without metadata to a program, as an exporter may do."""
    for part in program.graph_module.modules():
        node = next(node for node in part.graph.nodes if node.op == "call_function") if hasattr(part, "graph") else None
        if node is not None:
            with part.graph.inserting_after(node):
                part.graph.call_function(torch.ops.aten.detach.default, (node,))


def record_block(folder, block, values=None):
    """Runs a block; returns its recording and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with whence.record(folder / "m.whence.json", values) as recording:
            block()
    return recording, [str(warning.message) for warning in caught if issubclass(warning.category, whence.WhenceWarning)]


def operations(path):
    return json.loads(path.read_text())["operations"]


@pytest.mark.parametrize("model", [Small, Branching])
def test_program_is_recorded_before_an_exporter_changes_it(tmp_path, model):
    for name in ("plain", "rewritten"):
        (tmp_path / name).mkdir()
    record_block(tmp_path / "plain", lambda: torch.export.export(model().eval(), X))
    programs = []

    def block():
        programs.append(torch.export.export(model().eval(), X))
        insert_nodes(programs[0])

    values = tmp_path / "v.safetensors"
    recording, messages = record_block(tmp_path / "rewritten", block, values)
    with pytest.raises(Exception, match="val"):
        torch.export.save(programs[0], tmp_path / "m.pt2")
    assert recording.complete and not messages and recording.unrecorded == 0
    assert operations(tmp_path / "rewritten" / "m.whence.json") == operations(tmp_path / "plain" / "m.whence.json")
    results = value_file.read(values)
    (result,) = results.runs[0].calls[-1].results
    with torch.no_grad():
        torch.testing.assert_close(results.whole(result), model().eval()(*X))


def test_unrecordable_program_does_not_affect_others(tmp_path):
    """The second of three exported programs cannot be recorded; the others and a trace can."""
    programs = []

    def block():
        torch.jit.trace(Small().eval(), X)
        for model, strict in ((Small(), False), (ThroughData(), True), (Branching(), False)):
            programs.append(torch.export.export(model.eval(), X, strict=strict))

    recording, messages = record_block(tmp_path, block)
    assert len(programs) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.2.whence.json", "m.4.whence.json", "m.whence.json"]
    assert [file["file"] for file in recording.files] == [str(tmp_path / name) for name in (
        "m.whence.json", "m.2.whence.json", "m.4.whence.json")]
    (warning,) = [message for message in messages if "not recorded" in message]
    assert warning.startswith("E0303") and "ThroughData" in warning and "m.3.whence.json" in warning
    assert "write to the tensor itself" in warning and recording.unrecorded == 1 and not recording.complete
    assert [diagnostic.severity for diagnostic in recording.diagnostics if diagnostic.code == "E0303"] == ["warning"]


def test_recording_without_a_recordable_program_warns(tmp_path):
    recording, (messages,) = record_block(tmp_path, lambda: torch.export.export(ThroughData().eval(), X, strict=True))
    assert recording.files == [] and not recording.complete and "E0303" in messages


CALLS = {"torch.export.export": (lambda: torch.export.export(Small().eval(), X), "torch.jit.trace"),
         "torch.export.draft_export": (lambda: torch.export.draft_export(Small().eval(), X), "torch.jit.trace"),
         "torch.onnx.export": (lambda: torch.onnx.export(Small().eval(), X, dynamo=True, verbose=False), "dynamo=False")}


@pytest.mark.parametrize("call", CALLS)
def test_remedy_depends_on_the_exporter(tmp_path, monkeypatch, call):
    def fails(*args, **kwargs):
        raise ValueError("no name for this")

    monkeypatch.setattr(torch.export, "save", fails)
    call_exporter, remedy = CALLS[call]
    recording, messages = record_block(tmp_path, call_exporter)
    (warning,) = [message for message in messages if "not recorded" in message]
    assert f"the program that {call} made of Small" in warning and "no name for this" in warning
    assert remedy in warning.partition("; try: ")[2] and ("dynamo" in warning) == (call == "torch.onnx.export")
    assert recording.unrecorded == 1


def test_existing_file_is_not_replaced_and_the_others_are_written(tmp_path):
    (tmp_path / "m.2.whence.json").write_text("mine")
    with pytest.raises(whence.WhenceError) as refused, whence.record(tmp_path / "m.whence.json"):
        for model in (Small, Branching, Small):
            torch.export.export(model().eval(), X)
    assert refused.value.code == "E0401" and (tmp_path / "m.2.whence.json").read_text() == "mine"
    assert operations(tmp_path / "m.whence.json") and operations(tmp_path / "m.3.whence.json")


def test_transformers_export_for_generation(tmp_path):
    """transformers' exporter changes the programs and adds inputs that calls of the model do not have."""
    import onnx_ir
    from transformers import MistralConfig, MistralForCausalLM
    from transformers.exporters import OnnxConfig, OnnxExporter

    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                                             num_key_value_heads=1, vocab_size=40, sliding_window=8)).eval()
    ids = torch.randint(0, 40, (2, 6))
    exports = []
    recording, messages = record_block(tmp_path, lambda: exports.append(OnnxExporter().export_for_generation(
        model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, OnnxConfig(dynamic=True))))
    assert recording.complete and not [message for message in messages if "not recorded" in message]
    sidecars = [tmp_path / "m.whence.json", tmp_path / "m.2.whence.json"]
    for (name, component), sidecar in zip(exports[0].components.items(), sidecars, strict=True):
        onnx_ir.save(component.program, tmp_path / f"{name}.onnx")
        report = whence.annotate(tmp_path / f"{name}.onnx", sidecar)
        assert report.matched + report.exact > 0.9 * report.nodes, (name, report)
    values = whence.record_values(model, kwargs={"input_ids": ids, "position_ids": torch.arange(6).expand(2, 6)})
    window = "input.past_key_values.layers.0._sliding_window_tensor"
    with pytest.raises(whence.WhenceError) as raised:
        whence.accuracy(tmp_path / "prefill.onnx", values)
    assert raised.value.code == "E0104" and window in str(raised.value) and "--extra-inputs" in raised.value.remedy
    report = whence.accuracy(tmp_path / "prefill.onnx", values, sidecar=sidecars[0], extra_inputs={window: torch.tensor(8)})
    assert report.first is None and report.of("").relative < 1e-5 and report.of("model.layers.0").status == "equal"
