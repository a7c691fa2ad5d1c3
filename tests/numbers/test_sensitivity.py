"""whence.sensitivity: comparison with modules quantised by hand, choices within a budget, and bad input."""

import json
import math
import os
import re

import jsonschema
import numpy
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto
from onnxruntime.quantization import quantize_dynamic

import command
import whence
from numbers_models import Encoder, example
from whence.quantising import trial

SCHEMA = jsonschema.Draft202012Validator(json.loads((command.ROOT / "schema" / "sensitivity.schema.json").read_text()))
PRODUCTS = ["MatMul", "Gemm", "Gather"]


@pytest.fixture(autouse=True)
def separate_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Exports an encoder large enough that 8-bit weights save more than their scales cost."""
    folder = tmp_path_factory.mktemp("wide")
    whence.export(Encoder(128), example(), folder / "model.onnx")
    numpy.savez(folder / "inputs.npz", ids=example()[0].numpy())
    numpy.savez(folder / "others.npz", ids=example()[0].numpy()[::-1].copy())
    return folder / "model.onnx"


def sets(count=1):
    ids = example()[0]
    return [(ids,), (ids.flip(0),)][:count]


def outputs(path, ids):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: ids.numpy()})


def error_by_hand(model, other, ids):
    """Returns the larger of the scores' relative difference and the share of changed classes."""
    (exact, classes), (actual, other_classes) = outputs(model, ids), outputs(other, ids)
    exact, actual = exact.astype(numpy.float64), actual.astype(numpy.float64)
    relative = float(numpy.linalg.norm(actual - exact) / numpy.linalg.norm(exact))
    return max(relative, float((classes != other_classes).mean()))


def nodes_of(model, module, operators):
    return [node.name for node in onnx.load(model).graph.node if node.op_type in operators and any(
        entry.key == "pkg.whence.module" and (entry.value + ".").startswith(module + ".") for entry in node.metadata_props)]


def quantise_by_hand(model, target, **options):
    quantize_dynamic(str(model), str(target), op_types_to_quantize=PRODUCTS,
                     extra_options={"DefaultTensorType": TensorProto.FLOAT}, **options)
    return target


def row_of(report, module):
    return next(row for row in report.modules if row.module == module)


@pytest.mark.parametrize("module", ["layers.0.up", "embedding", "head", "scale"])
def test_a_row_equals_quantising_the_module_by_hand(model, tmp_path, module):
    report = whence.sensitivity(model, sets(), time=False)
    other = quantise_by_hand(model, tmp_path / "q.onnx", nodes_to_quantize=nodes_of(model, module, PRODUCTS))
    row = row_of(report, module)
    assert row.error == pytest.approx(error_by_hand(model, other, example()[0]), rel=1e-6) and row.error > 0
    assert row.saved == pytest.approx(model.stat().st_size - other.stat().st_size, abs=64)
    assert row.sqnr == pytest.approx(-20 * math.log10(row.error))
    assert report.size == model.stat().st_size


def test_quantisable_modules_are_sorted_by_sensitivity(model):
    report = whence.sensitivity(model, sets(), time=False)
    measured = [row for row in report.modules if row.status == "measured"]
    assert {row.module for row in measured} == {
        "embedding", "scale", "head", *(f"layers.{at}.{name}" for at in (0, 1) for name in (
            "attention.query", "attention.key", "attention.value", "attention.out", "up", "down"))}
    assert [row.error for row in measured] == sorted((row.error for row in measured), reverse=True)
    # Dynamic quantisation skips products of activations.
    assert {row.module for row in report.modules if row.status == "unchanged"} == {"layers.0.attention", "layers.1.attention"}
    assert row_of(report, "scale").nodes == 2  # one for each call


def test_a_module_with_an_outlier_is_the_most_sensitive(tmp_path):
    changed = Encoder(64)
    with torch.no_grad():
        changed.layers[1].up.weight[0, 0] = 400.0  # the other weights are rounded to a few steps
        changed.layers[1].up.weight[1, 1] = -400.0
    whence.export(changed, example(), tmp_path / "m.onnx")
    report = whence.sensitivity(tmp_path / "m.onnx", sets(), time=False)
    assert report.modules[0].module == "layers.1.up"
    assert report.modules[0].error > 10 * row_of(report, "layers.0.up").error


def test_globs_select_modules_with_their_children(model, tmp_path):
    report = whence.sensitivity(model, sets(), modules=["layers.*", "head"], exclude=["layers.1.attention"], time=False)
    assert {row.module for row in report.modules} == {"layers.0", "layers.1", "head"}
    other = quantise_by_hand(model, tmp_path / "q.onnx", nodes_to_quantize=nodes_of(model, "layers.1.up", PRODUCTS)
                             + nodes_of(model, "layers.1.down", PRODUCTS))
    assert row_of(report, "layers.1").error == pytest.approx(error_by_hand(model, other, example()[0]), rel=1e-6)


def test_leaving_out_a_module_equals_doing_it_by_hand(model, tmp_path):
    report = whence.sensitivity(model, sets(), leave_out=True, modules=["layers.*", "head"], time=False)
    all_nodes = [name for module in ("layers.0", "layers.1", "head") for name in nodes_of(model, module, PRODUCTS)]
    remaining = [name for name in all_nodes if name not in nodes_of(model, "head", PRODUCTS)]
    other = quantise_by_hand(model, tmp_path / "q.onnx", nodes_to_quantize=remaining)
    assert row_of(report, "head").error == pytest.approx(error_by_hand(model, other, example()[0]), rel=1e-6)
    together = quantise_by_hand(model, tmp_path / "all.onnx", nodes_to_quantize=all_nodes)
    assert report.together_error == pytest.approx(error_by_hand(model, together, example()[0]), rel=1e-6)
    assert report.left_out and "left out" in str(report)


def test_the_error_is_the_largest_over_all_inputs(model):
    first, second, both = (whence.sensitivity(model, inputs, modules=["layers.0"], time=False).modules[0].error
                           for inputs in (sets()[:1], sets(2)[1:], sets(2)))
    assert both == pytest.approx(max(first, second), rel=1e-6)


@pytest.mark.parametrize("quantize", ["qdq", "float16"])
def test_other_quantisers(model, quantize):
    report = whence.sensitivity(model, sets(2), quantize=quantize, modules=["layers.*"], time=False)
    assert [row.status for row in report.modules] == ["measured", "measured"]
    low, high = {"qdq": (1e-3, 0.3), "float16": (1e-6, 5e-3)}[quantize]
    assert all(low < row.error < high and row.saved > 0 for row in report.modules)


@pytest.mark.parametrize("budget", ["error=0.02", "size=70%"])
def test_a_choice_meets_its_budget_when_applied(model, tmp_path, budget):
    """Passes the list to ONNX Runtime's quantiser, as a user would."""
    choice = whence.sensitivity(model, sets(), budget=budget, time=False).choice
    assert choice.met and choice.nodes_to_exclude
    other = quantise_by_hand(model, tmp_path / "q.onnx", nodes_to_exclude=list(choice.nodes_to_exclude))
    error, size = error_by_hand(model, other, example()[0]), other.stat().st_size
    assert error == pytest.approx(choice.error, rel=1e-6) and size == pytest.approx(choice.size, abs=64)
    if budget.startswith("error"):
        assert 0 < error <= 0.02 and size < model.stat().st_size
    else:
        assert size <= 0.7 * model.stat().st_size
        assert error < whence.sensitivity(model, sets(), time=False).together_error


def test_extreme_budgets(model):
    nothing = whence.sensitivity(model, sets(), budget="error=0", time=False).choice
    assert nothing.met and nothing.error == 0 and nothing.size == model.stat().st_size
    everything = whence.sensitivity(model, sets(), budget="error=9", time=False).choice
    assert everything.met and everything.excluded == () == everything.nodes_to_exclude
    assert not whence.sensitivity(model, sets(), budget="size=1K", time=False).choice.met


def test_time_is_reported_by_module_and_can_be_a_budget(model):
    report = whence.sensitivity(model, sets(), modules=["layers.*"], budget="time=300%")
    assert all(math.isfinite(row.time_saved) and row.time_saved < 1 for row in report.modules)
    assert report.choice.met
    assert not whence.sensitivity(model, sets(), modules=["layers.*"], budget="time=0%").choice.met


def test_measurements_are_not_repeated(model, monkeypatch):
    """A run interrupted after three trials continues with the fourth."""
    trials = []

    def stop_at_third(setting, nodes):
        if len(trials) == 3:
            raise KeyboardInterrupt
        trials.append(nodes)
        return trial.Outcome(0.1 * len(trials), 1000)

    monkeypatch.setattr(trial, "run", stop_at_third)
    with pytest.raises(KeyboardInterrupt):
        whence.sensitivity(model, sets(), time=False)
    later_trials = []
    monkeypatch.setattr(trial, "run", lambda setting, nodes: later_trials.append(nodes) or trial.Outcome(1.0, 1000))
    report = whence.sensitivity(model, sets(), time=False)
    assert len(later_trials) == len(report.modules) + 1 - 3 and all(nodes not in trials for nodes in later_trials)
    assert sorted(row.error for row in report.modules)[:3] == [pytest.approx(0.1 * at) for at in (1, 2, 3)]
    whence.sensitivity(model, sets(), time=False)
    assert len(later_trials) == len(report.modules) + 1 - 3
    for changed in ({"inputs": sets(2)}, {"quantize": "qdq"}, {"fresh": True}):
        count = len(later_trials)
        whence.sensitivity(model, **{"inputs": sets(), "time": False, **changed})
        assert len(later_trials) > count, changed


def test_a_damaged_cache_is_measured_again(model, tmp_path):
    first = whence.sensitivity(model, sets(), modules=["head"], time=False)
    cached, = (tmp_path / "cache" / "whence" / "sensitivity").iterdir()
    for content in (b"", b"{", b"[]", b'{"version": 1, "outcomes": {"a": {"x": 1}}}', b'{"version": 1, "outcomes": 3}',
                    cached.read_bytes().replace(b'"size": ', b'"size": null, "x": ')):
        cached.write_bytes(content)
        assert whence.sensitivity(model, sets(), modules=["head"], time=False).modules == first.modules


def test_parallel_processes_give_equal_results(model):
    serial = whence.sensitivity(model, sets(), modules=["layers.*", "head"], time=False)
    parallel = whence.sensitivity(model, sets(), modules=["layers.*", "head"], time=False, jobs=2, fresh=True)
    assert [(row.module, row.saved) for row in parallel.modules] == [(row.module, row.saved) for row in serial.modules]
    assert [row.error for row in parallel.modules] == pytest.approx([row.error for row in serial.modules], rel=1e-3)


@pytest.mark.parametrize("quantize, jobs", [("int8-dynamic", 2), ("qdq", 1), ("float16", 1)])
def test_a_file_of_pytorch_with_external_weights(quantize, jobs, tmp_path):
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval()
    x = torch.randn(4, 64)
    program = torch.onnx.export(net, (x,), dynamo=True, verbose=False, input_names=["x"])
    errors = []
    for name, external in (("inline", False), ("external", True)):
        program.save(str(tmp_path / f"{name}.onnx"), external_data=external)
        whence.annotate(tmp_path / f"{name}.onnx")
        report = whence.sensitivity(tmp_path / f"{name}.onnx", [{"x": x.numpy()}], quantize=quantize, jobs=jobs, time=name == "external")
        errors.append({each.module: each.error for each in report.modules})
    assert (tmp_path / "external.onnx.data").exists() and {"0", "2"} <= errors[0].keys()
    assert errors[0] == pytest.approx(errors[1]) and not report.notes


def test_external_weights_count_as_size(tmp_path):
    whence.export(Encoder(128), example(), tmp_path / "m.onnx", external_data=True)
    size = sum(path.stat().st_size for path in tmp_path.glob("m.onnx*") if not path.name.endswith(".json"))
    report = whence.sensitivity(tmp_path / "m.onnx", sets(), modules=["layers.*"], time=False)
    assert report.size == size and all(row.saved > 0 for row in report.modules)


def test_the_commands_output(model, tmp_path, run_main):
    arguments = ["sensitivity", model, "--inputs", model.with_name("inputs.npz"), "--inputs",
                 model.with_name("others.npz"), "--modules", "layers.*", "--modules", "head", "--no-time"]
    document = json.loads(command.run(*arguments, "--budget", "error=0.02", "--exclude-list", tmp_path / "list.json",
                                      "--html", tmp_path / "page.html", "--json").stdout)
    SCHEMA.validate(document)
    written = json.loads((tmp_path / "list.json").read_text())
    assert written == {"nodes_to_exclude": document["choice"]["nodes_to_exclude"]}
    selected = json.loads(command.run("select", model, "--modules", "head", "--format", "ort-quant").stdout)
    assert written.keys() == selected.keys()
    page = (tmp_path / "page.html").read_text()
    assert page.count("<circle ") == 3 and page.count("<tr") == 4 and not re.search(r'(src|href)=|url\(|<script', page)
    text = run_main(*arguments).out
    assert all(f"\n{module} " in text for module in ("layers.0", "layers.1", "head"))
    assert run_main(*arguments, "--budget", "size=1K", code=1).out.count("cannot be met") == 1


@pytest.mark.parametrize(("arguments", "code"), [
    ([], 2), (["--inputs", "no.npz"], 2), (["--inputs", "INPUTS", "--budget", "error"], 2),
    (["--inputs", "INPUTS", "--budget", "error=-1"], 2), (["--inputs", "INPUTS", "--budget", "size=nan"], 2),
    (["--inputs", "INPUTS", "--budget", "time=5"], 2), (["--inputs", "INPUTS", "--budget", "size=5M%"], 2),
    (["--inputs", "INPUTS", "--modules", "nothing.*"], 2), (["--inputs", "INPUTS", "--quantize", "int3"], 2),
    (["--inputs", "INPUTS", "--jobs", "0"], 2), (["--inputs", "INPUTS", "--exclude-list", "x.json"], 2),
    (["--inputs", "INPUTS", "--html", "MODEL"], 2), (["--inputs", "MODEL"], 3),
    (["--inputs", "INPUTS", "--leave-out", "--budget", "error=1"], 2),
])
def test_invalid_command_lines_are_refused(model, run_main, arguments, code):
    before = model.read_bytes()
    paths = {"INPUTS": model.with_name("inputs.npz"), "MODEL": model}
    error = run_main("sensitivity", model, *[paths.get(argument, argument) for argument in arguments], code=code).err
    assert re.match(r"E\d{4} ", error) and "try: " in error and model.read_bytes() == before


def assert_fails(code, call):
    with pytest.raises(whence.WhenceError) as raised:
        call()
    assert raised.value.code == code and raised.value.remedy, raised.value


def test_unsuitable_inputs_and_files_are_refused(model, tmp_path):
    assert_fails("E0104", lambda: whence.sensitivity(model, []))
    for wrong in ("inputs.npz", {"x": torch.zeros(3, 24)}, 3):
        assert_fails("E0101", lambda wrong=wrong: whence.sensitivity(model, wrong))
    assert_fails("E0104", lambda: whence.sensitivity(model, [{}]))
    assert_fails("E0104", lambda: whence.sensitivity(model, [(torch.zeros(3, 24),)]))
    assert_fails("E0104", lambda: whence.sensitivity(model, [(torch.zeros(3, dtype=torch.int64),)]))
    assert_fails("E0104", lambda: whence.sensitivity(model, [(torch.zeros(3, 24, dtype=torch.bfloat16),)]))
    assert_fails("E0104", lambda: whence.sensitivity(model, [(example()[0].to_sparse(),)]))
    assert_fails("E0207", lambda: whence.sensitivity(model, [(torch.full((3, 24), 10**6),)]))
    plain = onnx.load(model)
    for node in plain.graph.node:
        del node.metadata_props[:]
    onnx.save(plain, tmp_path / "plain.onnx")
    assert_fails("E0203", lambda: whence.sensitivity(tmp_path / "plain.onnx", sets()))
    assert_fails("E0102", lambda: whence.sensitivity(tmp_path / "no.onnx", sets()))


def test_a_module_that_cannot_be_quantised_is_reported_as_failed(model, monkeypatch):
    def refuse_head(setting, nodes):
        head = [name for name in nodes if "head" in name]
        return trial.Outcome(failed="no kernel for it") if head and len(nodes) == 1 else trial.Outcome(0.1, 1000)

    monkeypatch.setattr(trial, "run", refuse_head)
    report = whence.sensitivity(model, sets(), time=False, budget="error=0.5")
    row = row_of(report, "head")
    assert (row.status, row.note) == ("failed", "no kernel for it") and "failed: no kernel for it" in str(report)
    assert report.choice.excluded == ("head",) and report.to_json()["modules"][-1]["error"] is None


def test_progress_is_reported(model):
    calls = []
    whence.sensitivity(model, sets(), modules=["layers.*"], time=False,
                       progress=lambda *arguments: calls.append(arguments))
    assert calls[0] == (0, 3, "layers.0") and calls[-1][:2] == (3, 3)
    assert os.path.exists(model)


# ---- effects of the quantiser on the file and its folder ------------------------------------------------------------


class TwoLinears(torch.nn.Module):
    """Its layers become Gemms, which ONNX Runtime's quantiser renames to MatMul before it compares names."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(1))
    whence.export(TwoLinears().eval(), (x,), folder / "plain.onnx")
    assert {node.op_type for node in onnx.load(folder / "plain.onnx").graph.node} >= {"Gemm"}
    return folder / "plain.onnx", x


def apply_choice(path, target, report, **options):
    """Quantises without the excluded nodes, as a user would."""
    quantize_dynamic(str(path), str(target), op_types_to_quantize=list(report.operators),
                     nodes_to_exclude=list(report.choice.nodes_to_exclude),
                     extra_options={"DefaultTensorType": TensorProto.FLOAT}, **options)
    return target


def float_error(path, other, x):
    (expected, *_), (actual, *_) = outputs(path, x), outputs(other, x)
    return float(numpy.linalg.norm(actual.astype(float) - expected) / numpy.linalg.norm(expected.astype(float)))


def test_a_gemm_is_quantised_and_excluded_by_name(plain, tmp_path):
    path, x = plain
    report = whence.sensitivity(path, [(x,)], time=False, budget="size=70%")
    assert all(row.status == "measured" and row.error > 1e-4 for row in report.modules), str(report)
    assert report.choice.met and len(report.choice.excluded) == 1
    quantised = apply_choice(path, tmp_path / "q.onnx", report)
    assert float_error(path, quantised, x) == pytest.approx(report.choice.error, rel=1e-6)
    types = [node.op_type for node in onnx.load(quantised).graph.node]
    assert types.count("MatMulInteger") == 1


def test_a_choice_also_excludes_unmeasured_modules(model, tmp_path):
    for options in ({"modules": ["layers.0"]}, {"exclude": ["head", "layers.*.attention"]}):
        report = whence.sensitivity(model, sets(), budget="error=0.5", time=False, **options)
        quantised = apply_choice(model, tmp_path / "q.onnx", report)
        assert error_by_hand(model, quantised, example()[0]) == pytest.approx(report.choice.error, rel=1e-6), options
        assert report.choice.excluded == ()


@pytest.mark.parametrize("quantize", ["qdq", "float16"])
def test_a_budget_that_needs_all_modules_is_met(model, quantize):
    """Single modules may save nothing because of the casts around them."""
    everything = whence.sensitivity(model, sets(), quantize=quantize, time=False)
    share = (everything.together_size + everything.size) / 2 / everything.size
    choice = whence.sensitivity(model, sets(), quantize=quantize, time=False, budget=f"size={100 * share:.1f}%").choice
    assert choice.met and choice.size <= share * everything.size


def test_nothing_is_written_or_deleted_next_to_the_model(plain, tmp_path):
    """ONNX Runtime's quantisers write plain-inferred.onnx next to their input file and delete it."""
    model = tmp_path / "plain.onnx"
    model.write_bytes(plain[0].read_bytes())
    (tmp_path / "plain-inferred.onnx").write_bytes(b"mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for quantize in ("int8-dynamic", "qdq", "float16"):
        whence.sensitivity(model, [(plain[1],)], quantize=quantize)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


def test_external_weights_are_not_overwritten(tmp_path, run_main):
    whence.export(Encoder(64), example(), tmp_path / "m.onnx", external_data=True)
    numpy.savez(tmp_path / "inputs.npz", ids=example()[0].numpy())
    weights, = (path for path in tmp_path.glob("m.onnx*") if path.name not in ("m.onnx",) and "json" not in path.name)
    before = weights.read_bytes()
    for more in (["--html", weights], ["--budget", "error=1", "--exclude-list", weights]):
        assert run_main("sensitivity", tmp_path / "m.onnx", "--inputs", tmp_path / "inputs.npz", *more, code=2).err.startswith("E0101")
    values = whence.record_values(Encoder(64), example(), tmp_path / "v.safetensors")
    for option in ("--html", "--model-explorer"):
        assert run_main("accuracy", tmp_path / "m.onnx", "--values", tmp_path / "v.safetensors", option, weights,
                        code=2).err.startswith("E0101")
    assert_fails("E0101", lambda: whence.accuracy(tmp_path / "m.onnx", values).to_html(weights))
    assert weights.read_bytes() == before


def test_a_failure_is_not_cached(model, monkeypatch):
    measured = trial.run
    monkeypatch.setattr(trial, "run", lambda setting, nodes: trial.Outcome(failed="No space left on device"))
    with pytest.raises(whence.WhenceError, match="E0207.*fails for every module: No space left"):
        whence.sensitivity(model, sets(), modules=["head"], time=False)
    monkeypatch.setattr(trial, "run", measured)
    assert whence.sensitivity(model, sets(), modules=["head"], time=False).modules[0].status == "measured"


@pytest.mark.parametrize("place", ["file", "/proc"])
def test_an_unwritable_cache_is_ignored(model, tmp_path, monkeypatch, place):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    assert whence.sensitivity(model, sets(), modules=["head"], time=False).modules[0].status == "measured"


def test_nan_outputs_are_refused(plain):
    assert_fails("E0104", lambda: whence.sensitivity(plain[0], [(torch.full((5, 64), math.nan),)]))


def test_an_interruption_prints_one_line(model, run_main, monkeypatch):
    def interrupt(setting, nodes):
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "run", interrupt)
    result = run_main("sensitivity", model, "--inputs", model.with_name("inputs.npz"), code=130)
    assert result.err == "interrupted\n" and not result.out
