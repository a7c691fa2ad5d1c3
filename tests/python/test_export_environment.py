"""Global state during an export, files that it writes, and options that are refused before it runs."""

import logging
import os
import subprocess
import sys
import warnings

import onnx
import pytest
import torch
import whence

import command

NATIVE = ["native", "native-export"]
BACKENDS = [*NATIVE, "torch-dynamo", "torch-torchscript"]


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(torch.relu(self.first(x)))


X = torch.randn(3, 4)


@pytest.mark.parametrize("backend", NATIVE)
def test_write_to_an_unregistered_tensor_gives_a_warning(backend):
    class Cached(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = torch.zeros(1, 4, 3)

        def forward(self, x):
            return self.cache.index_copy_(1, torch.tensor([1]), x) + 1

    with pytest.warns(whence.WhenceWarning, match="E0308"):
        whence.export(Cached(), torch.rand(1, 1, 3), backend=backend)


# ---- is_in_onnx_export ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_user_code_can_detect_an_export(backend, quiet):
    from torch.onnx import is_in_onnx_export as imported_before

    answers = []

    class ChecksFlag(torch.nn.Module):
        def forward(self, x):
            answers.append((torch.onnx.is_in_onnx_export(), whence.is_in_onnx_export(), imported_before()))
            return x * 2 if torch.onnx.is_in_onnx_export() else x * 3

    program = whence.export(ChecksFlag(), X, backend=backend)
    torch.testing.assert_close(program(X)[0], X * 2)
    assert answers and all(answer == (True, True, True) for answer in answers)
    assert not torch.onnx.is_in_onnx_export() and not whence.is_in_onnx_export()

    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError("not this")

    with pytest.raises(Exception):
        whence.export(Fails(), X, backend=backend)
    assert not torch.onnx.is_in_onnx_export()


# ---- PyTorch's fast path of attention -------------------------------------------------------------------------------


FAST_PATH_ENABLED: list = []


class Padded(torch.nn.Module):
    """Records whether PyTorch's layers may use their fast path, one kernel for the complete layer."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, x, padding):
        FAST_PATH_ENABLED.append(torch.backends.mha.get_fastpath_enabled())
        return self.encoder(x, src_key_padding_mask=padding)


PADDING = torch.tensor([[False, False, False, True, True], [False] * 5])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["native", "native-export"])
def test_padded_tensors_stay_padded(backend, dynamic):
    """The fast path would convert them to nested tensors."""
    model, x = Padded().eval(), torch.randn(2, 5, 8)
    axes = {"x": {0: "batch", 1: "seq"}, "padding": {0: "batch", 1: "seq"}} if dynamic else None
    program = whence.export(model, (x, PADDING), backend=backend, dynamic_shapes=axes, verify=True)
    assert program.verification.ok and program.backend == backend
    calls = [(x, PADDING)]
    if dynamic:
        calls.append((torch.randn(3, 7, 8), torch.arange(7) > torch.tensor([[6], [3], [4]])))
    for tensor, padding in calls:
        torch.testing.assert_close(program(tensor, padding)[0], model(tensor, padding), rtol=1e-4, atol=1e-5)
        with torch.no_grad():  # ignores the results at padding
            torch.testing.assert_close(program(tensor, padding)[0][~padding], model(tensor, padding)[~padding],
                                       rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("before", [True, False])
def test_fast_path_setting_is_restored_after_an_export(before):
    class Fails(Padded):
        def forward(self, x, padding):
            super().forward(x, padding)
            raise ValueError("not this")

    torch.backends.mha.set_fastpath_enabled(before)
    try:
        for model in (Padded(), Fails()):
            FAST_PATH_ENABLED.clear()
            if isinstance(model, Fails):
                with pytest.raises(Exception):
                    whence.export(model.eval(), (torch.randn(2, 5, 8), PADDING))
            else:
                whence.export(model.eval(), (torch.randn(2, 5, 8), PADDING))
            assert FAST_PATH_ENABLED and not any(FAST_PATH_ENABLED)
            assert torch.backends.mha.get_fastpath_enabled() == before
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


# ---- modes ----------------------------------------------------------------------------------------------------------


def test_changed_mode_is_reported_and_restored():
    model = Small().train()
    model.first.eval()
    with pytest.warns(whence.WhenceWarning, match="in training mode and is exported in evaluation mode"):
        whence.export(model, X)
    assert model.training and not model.first.training and model.drop.training
    for mode, training in ((torch.onnx.TrainingMode.TRAINING, True), ("eval", False), ("preserve", True),
                           (torch.onnx.TrainingMode.PRESERVE, True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", whence.WhenceWarning)
            with pytest.raises(KeyError), whence.select_model_mode_for_export(model, mode):
                assert model.training == training
                raise KeyError
        assert model.training and not model.first.training
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with whence.select_model_mode_for_export(model.first, "eval"):
            pass  # already in this mode: no warning
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(model, X, training="evaluation")
    assert raised.value.code == "E0101"


# ---- Apex -----------------------------------------------------------------------------------------------------------


class O2StateDictHook:
    """Like Apex's hook at level O2: state_dict() returns copies in float32."""

    def __call__(self, module, state, prefix, local):
        for name in state:
            state[name] = state[name].float().clone()
        return state


@pytest.mark.parametrize("backend", NATIVE)
def test_apex_hooks_are_disabled_during_an_export(backend, quiet):
    dtypes = []

    class ReadsStateDict(Small):
        def forward(self, x):
            dtypes.append(self.state_dict()["first.weight"].dtype)
            return super().forward(x)

    model = ReadsStateDict().half().eval()
    hooks = [module._register_state_dict_hook(O2StateDictHook()) for module in (model, model.first)]
    assert model.state_dict()["first.weight"].dtype == torch.float32
    whence.export(model, X.half(), backend=backend)
    assert dtypes and set(dtypes) == {torch.float16}
    assert model.state_dict()["first.weight"].dtype == torch.float32
    with pytest.raises(Exception):
        whence.export(model, torch.randn(3, 5).half(), backend=backend)
    assert model.state_dict()["first.weight"].dtype == torch.float32 and len(hooks) == 2


# ---- logging --------------------------------------------------------------------------------------------------------


def test_stages_times_and_decisions_are_logged(caplog, capsys, quiet):
    model = Small().eval()
    with caplog.at_level(logging.INFO, "whence"):
        whence.export(model, (X, {}), do_constant_folding=False, keep_initializers_as_inputs=None, training="preserve")
    text = caplog.text
    for line in ("trace...", "export...", "do_constant_folding=False", "keep_initializers_as_inputs=None",
                 "opset_version=None: opset 20"):
        assert line in text
    capsys.readouterr()
    whence.export(model, X)
    assert capsys.readouterr() == ("", "")  # no output by default
    whence.export(model, X, verbose=True)
    assert "[whence] trace..." in capsys.readouterr().err
    program = whence.export(model, X, profile=True)
    output = capsys.readouterr().err
    assert {"trace", "export", "annotate", "validate", "export: convert"} <= set(program.seconds)
    assert all(f"s  {name}" in output for name in program.seconds) and min(program.seconds.values()) >= 0
    assert not logging.getLogger("whence").handlers


def test_last_dict_used_as_keywords_is_logged(caplog, quiet):
    class Takes(torch.nn.Module):
        def forward(self, x, y=None):
            return x if y is None else x + y

    with caplog.at_level(logging.INFO, "whence"):
        whence.export(Takes(), (X, {"y": X}))
    assert "used as keyword arguments: y" in caplog.text


# ---- reports and artifacts ------------------------------------------------------------------------------------------


def only(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


@pytest.mark.parametrize("backend, suffix", [("native", "pt"), ("native-export", "pt2")])
def test_exported_program_is_saved(backend, suffix, tmp_path, quiet):
    folder = tmp_path / "new" / "folder"
    program = whence.export(Small().eval(), X, backend=backend, dump_exported_program=True, artifacts_dir=folder)
    path = only(folder, f"onnx_export_*.{suffix}")
    loaded = torch.jit.load(path) if suffix == "pt" else torch.export.load(path).module()
    torch.testing.assert_close(program(X)[0], loaded(X).detach())


@pytest.mark.parametrize("backend", NATIVE)
def test_report_has_pytorchs_name_and_folder(backend, tmp_path, quiet):
    """onnx_export_TIME_success.md shows the program and its operators, like torch.onnx.export(report=True)."""
    torch.onnx.export(Small().eval(), (X,), report=True, artifacts_dir=tmp_path / "torch", dynamo=True, verbose=False)
    pytorch_name = only(tmp_path / "torch", "*.md").name
    whence.export(Small().eval(), X, backend=backend, report=True, artifacts_dir=tmp_path / "whence", verify=True)
    report = only(tmp_path / "whence", "*.md")
    assert report.name.rpartition("_")[2] == pytorch_name.rpartition("_")[2] == "success.md"
    assert len(report.name) == len(pytorch_name) and report.name[:16] == pytorch_name[:16]
    text = report.read_text()
    for part in ("`first`", "## Time", "## Verification", "equal", "## The exported program", "linear"):
        assert part in text
    assert "Written: in memory" in text and "/whence-" not in text


class Lacking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(3, 3))

    def forward(self, x):
        return torch.linalg.matrix_exp(self.inner(x))


@pytest.mark.parametrize("backend", NATIVE)
def test_reports_of_failures(backend, tmp_path, quiet):
    with pytest.raises(whence.WhenceError):
        whence.export(Lacking(), torch.randn(3, 3), backend=backend, report=True, artifacts_dir=tmp_path / "a")
    text = only(tmp_path / "a", "onnx_export_*_conversion.md").read_text()
    assert "linalg_matrix_exp" in text and "**missing**" in text and "## The exported program" in text

    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError("not this model")

    with pytest.raises(Exception):
        whence.export(Fails(), X, backend=backend, report=True, artifacts_dir=tmp_path / "b")
    assert "not this model" in only(tmp_path / "b", "onnx_export_*_pt_export.md").read_text()


def test_artifacts_of_torch_dynamo(tmp_path, quiet):
    whence.export(Small().eval(), X, backend="torch-dynamo", report=True, dump_exported_program=True,
                  artifacts_dir=tmp_path)
    assert only(tmp_path, "onnx_export_*_success.md") and only(tmp_path, "onnx_export_*.pt2")


def test_report_of_different_results(tmp_path, quiet):
    class DiffersInExport(torch.nn.Module):
        def forward(self, x):
            return x + (1 if torch.onnx.is_in_onnx_export() else 0)

    whence.export(DiffersInExport(), X, report=True, artifacts_dir=tmp_path, verify=True)
    assert "DIFFERS" in only(tmp_path, "onnx_export_*_accuracy.md").read_text()


def test_artifacts_folder_that_cannot_be_created(tmp_path, quiet):
    (tmp_path / "file").write_text("")
    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Small().eval(), X, report=True, artifacts_dir=tmp_path / "file" / "in")
    assert raised.value.code == "E0401"


# ---- refused options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, code, remedy", [
    ({"opset_version": 12}, "E0101", "13 to 28"), ({"opset_version": 29}, "E0101", "13 to 28"),
    ({"opset_version": "18"}, "E0101", "13 to 28"), ({"operators": "new"}, "E0101", "'plain'"),
    ({"backend": "torch-dynamo", "operators": "plain"}, "E0101", "native-export"),
    ({"export_modules_as_functions": "Linear"}, "E0101", "{torch.nn.Linear}"),
    ({"export_modules_as_functions": {"Linear"}}, "E0101", "{torch.nn.Linear}"),
    ({"fallback": True}, "E0101", "chain"), ({"opset": 18}, "E0101", "opset_version"),
    ({"use_external_data_format": True}, "E0101", "external_data"), ({"inputnames": []}, "E0101", "input_names"),
    ({"nonsense": 1}, "E0101", "help"), ({"dynamo": True, "backend": "torch-dynamo"}, "E0101", "one of them"),
    ({"backend": "torch-torchscript", "report": True}, "E0101", "native"),
    ({"backend": "torch-torchscript", "dump_exported_program": True}, "E0101", "native"),
    ({"backend": ["native", "torch-torchscript"], "custom_translation_table": {"a::b": None}}, "E0101", "native"),
    ({"backend": "torch-dynamo", "custom_opsets": {"mylib": 1}}, "E0101", "torch-torchscript"),
    ({"backend": "torch-dynamo", "autograd_inlining": False}, "E0101", "native-export"),
    ({"backend": "torch-torchscript", "external_data": True}, "E0101", "native-export"),
    ({"operator_export_type": "NONE"}, "E0303", "ONNX_ATEN_FALLBACK"),
    ({"operator_export_type": "ONNX_FALLTHROUGH", "backend": "torch-torchscript"}, "E0101", "native"),
], ids=str)
def test_invalid_options_are_refused_before_the_model_runs(options, code, remedy, tmp_path):
    class Never(Small):
        def forward(self, x):
            raise AssertionError("it ran")

    with pytest.raises(whence.WhenceError) as raised:
        whence.export(Never().eval(), X, tmp_path / "m.onnx", **options)
    assert raised.value.code == code and remedy in raised.value.remedy and not list(tmp_path.iterdir())


def test_options_fixed_by_an_exported_program_are_refused():
    program = torch.export.export(Small().eval(), (X,))
    for options in ({"dynamic_shapes": ({0: "n"},)}, {"dynamic_axes": {"x": [0]}}, {"autograd_inlining": False},
                    {"training": "train"}):
        with pytest.raises(whence.WhenceError, match="of a torch.export.ExportedProgram") as raised:
            whence.export(program, **options)
        assert raised.value.code == "E0101" and raised.value.remedy


def test_every_option_of_pytorch_exists():
    import inspect

    options = set(inspect.signature(torch.onnx.export).parameters)
    assert options <= set(inspect.signature(whence.export).parameters) and len(options) > 20


def test_recording_around_an_export_warns_once(tmp_path):
    class Uses(torch.nn.Module):
        def forward(self, x):
            return x.view(x.shape[0], -1) * (2 if x.sum() > 0 else 3)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with whence.record(tmp_path / "m.whence.json"):
            whence.export(Uses().eval(), torch.ones(2, 3))
    assert len([warning for warning in caught if issubclass(warning.category, whence.WhenceWarning)]) == 1
    assert (tmp_path / "m.whence.json").exists()


def test_without_onnx_packages(tmp_path):
    """An export needs only PyTorch; functions that need more report what to install."""
    script = """
import sys
for name in ("onnx", "onnxruntime", "onnxscript", "onnx_ir"):
    sys.modules[name] = None
import whence
assert "torch" not in sys.modules  # the command starts through this package
import torch
program = whence.export(torch.nn.Linear(4, 4).eval(), torch.randn(2, 4), report=True)
program.save("m.onnx")
for call in (lambda: program.model_proto, lambda: program(torch.randn(2, 4)), lambda: program.verify()):
    try:
        call()
    except whence.WhenceError as error:
        assert error.code == "E0307" and "pip install onnx" in error.remedy, error
    else:
        raise AssertionError("it ran")
"""
    environment = {**os.environ, "PYTHONPATH": str(command.ROOT / "python"), "WHENCE": str(command.BINARY)}
    result = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True,
                            text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    assert (tmp_path / "m.onnx").exists()


def test_data_parallel_error_has_a_remedy():
    with pytest.raises(whence.WhenceError, match="DataParallel") as raised:
        whence.export(torch.nn.DataParallel(Small()), X)
    assert raised.value.code == "E0104" and "module" in raised.value.remedy


def test_dynamo_selects_the_backend(quiet):
    assert whence.export(Small().eval(), X, dynamo=True).backend == "native-export"
    program = whence.export(Small().eval(), X, dynamo=False)
    assert program.backend == "native" and isinstance(program.model_proto, onnx.ModelProto)


class Modes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(x))


def test_scripted_module_is_exported_in_the_requested_mode(quiet):
    model, x = torch.jit.script(Modes().train()), torch.randn(3, 4)
    program = whence.export(model, (x,))
    assert model.training and model.drop.training
    assert {node.op_type for node in program.model_proto.graph.node} == {"BatchNormalization"}
    torch.testing.assert_close(program(x)[0], model.eval()(x), rtol=1e-4, atol=1e-5)
    trained = whence.export(model, (x,), training="train").model_proto.graph
    assert "Dropout" in {node.op_type for node in trained.node} and not model.training


class CountsInALoop(torch.nn.Module):
    def forward(self, x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x


class SmallOrLarge(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] < 4 else x * 3


class Length(torch.nn.Module):
    def forward(self, x):
        return x.new_zeros(len(x)) + 1


@pytest.mark.parametrize("model, words", [(CountsInALoop, "fixes axis 0 of 'x'"),
                                          (SmallOrLarge, "axis 0 of 'x' is 2 to 3")])
def test_trace_valid_only_at_the_examples_size_is_reported(model, words):
    """torch.export captures these models and reports the sizes that they fix; no file with wrong results is written."""
    with pytest.warns(whence.WhenceWarning, match=f"E0304.*{words}"):
        program = whence.export(model().eval(), (torch.randn(2, 3),), dynamic_axes={"x": [0]})
    assert program.backend == "native-export"
    dim = program.model_proto.graph.input[0].type.tensor_type.shape.dim[0]
    for rows in (2, 3) if dim.dim_param else (2,):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x)[0], model()(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", whence.WhenceWarning)
        whence.export(model().eval(), (torch.randn(2, 3),))  # no dynamic axis
        whence.export(torch.nn.Linear(3, 2).eval(), (torch.randn(2, 3),), dynamic_axes={"input": [0]})


def test_axis_fixed_by_torch_export_is_retried_as_required(quiet):
    program = whence.export(Length(), (torch.randn(2, 3),), dynamic_axes={"x": [0]})
    for rows in 1, 2, 7:
        x = torch.randn(rows, 3)
        torch.testing.assert_close(program(x)[0], Length()(x))


class Rolls(torch.nn.Module):
    """Computes with sizes in Python; torch.export keeps the computation."""

    def forward(self, x):
        return x.roll(x.size(0) // 2, 0) * max(x.size(0), 4)


def test_size_arithmetic_in_python_is_kept(quiet):
    program = whence.export(Rolls(), (torch.randn(6, 2),), dynamic_shapes={"x": {0: "n"}})
    for rows in 2, 5, 8:
        x = torch.randn(rows, 2)
        torch.testing.assert_close(program(x)[0], Rolls()(x))


class AtLeastFour(torch.nn.Module):
    def forward(self, x):
        return x.sum(0) * max(x.shape[0], 4)


@pytest.mark.parametrize("rows", [3, 6])
def test_comparison_of_a_size_with_a_number_is_kept_or_reported(rows, quiet):
    """The example takes one branch of Python's comparison; other sizes take the other one."""
    program = whence.export(AtLeastFour().eval(), (torch.randn(rows, 2),), dynamic_axes={"x": {0: "n"}})
    for size in range(1, 9):
        x = torch.randn(size, 2)
        torch.testing.assert_close(program(x)[0], AtLeastFour()(x))
    with pytest.warns(whence.WhenceWarning, match="E0304.*axis 0 of 'x' is 4 or more"):
        whence.export(SmallOrLarge().eval(), (torch.randn(6, 3),), dynamic_axes={"x": {0: "n"}})


class Shorter(torch.nn.Module):
    """Takes the minimum of two sizes in Python; which size is smaller depends on the call."""

    def forward(self, x, y):
        n = min(x.shape[0], y.shape[0])
        return x[:n] * y[:n]


class Longer(torch.nn.Module):
    """Compares two sizes in Python."""

    def forward(self, x, y):
        if x.shape[0] > y.shape[0]:
            return x[: y.shape[0]] * 2
        return y * 3


def test_comparison_of_two_sizes_is_kept_or_reported(quiet):
    example, axes = (torch.randn(4, 3), torch.randn(6, 3)), ({0: "a"}, {0: "b"})
    program = whence.export(Shorter().eval(), example, dynamic_shapes=axes)
    for sizes in [(4, 6), (6, 4), (5, 5), (9, 2)]:
        inputs = [torch.randn(size, 3) for size in sizes]
        torch.testing.assert_close(program(*inputs)[0], Shorter()(*inputs))
    for dynamo in (False, True):
        with pytest.raises(whence.WhenceError, match=r"E0304.*axis 0 of 'x' at \d, axis 0 of 'y' at \d"):
            whence.export(Longer().eval(), example, dynamic_shapes=axes, dynamo=dynamo)


class Mean(torch.nn.Module):
    """The number of rows depends on data, and Python divides by it."""

    def forward(self, x, mask):
        rows = x[mask]
        return rows.sum() / len(rows)


def test_data_dependent_size_used_in_python_is_kept(quiet):
    x = torch.randn(4, 3)
    program = whence.export(Mean(), (x, torch.tensor([True] * 4)))
    for mask in ([True] * 4, [True, False, False, True], [False, True, False, False]):
        torch.testing.assert_close(program(x, torch.tensor(mask))[0], Mean()(x, torch.tensor(mask)))


class MeanOrNothing(torch.nn.Module):
    def forward(self, x):
        positive = x[x[:, 0] > 0]
        return positive.sum() / max(len(positive), 1)


class LargestThree(torch.nn.Module):
    def forward(self, x):
        positive = x[x[:, 0] > 0]
        return positive[:, 0].topk(min(3, len(positive)))[0]


def with_positive_rows(count: int, seed: int) -> torch.Tensor:
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(seed))
    x[:, 0] = x[:, 0].abs() * torch.where(torch.arange(6) < count, 1, -1)
    return x


@pytest.mark.parametrize("model", [MeanOrNothing(), LargestThree()])
def test_python_code_for_few_rows_is_kept(model, quiet):
    program = whence.export(model.eval(), with_positive_rows(4, 0))
    for count in range(7):
        x = with_positive_rows(count, count + 1)
        torch.testing.assert_close(program(x)[0], model(x))


def test_required_axis_fixed_by_a_trace_uses_torch_export(quiet):
    class PerRow(torch.nn.Module):
        def forward(self, x):
            return torch.vmap(lambda row: row.sum() * row)(x)

    program = whence.export(PerRow(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: "n"}})
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x)[0], PerRow()(x))


def test_required_axis_that_becomes_constant_is_refused(quiet):
    with pytest.raises(whence.WhenceError, match="E0304.*axis 0 of 'x' at 3"):
        whence.export(CountsInALoop(), (torch.randn(2, 3),), dynamic_shapes={"x": {0: "n"}})


def test_tracing_restores_the_random_state(quiet):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    whence.export(Modes(), (torch.randn(3, 4, generator=torch.Generator().manual_seed(1)),), training="train")
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("read_values", [lambda x: x.detach().numpy().sum(), lambda x: sum(x[0].tolist())])
def test_values_passed_to_other_libraries_are_reported(read_values):
    class UsesValues(torch.nn.Module):
        def forward(self, x):
            return x * read_values(x)

    with pytest.warns(whence.WhenceWarning, match="E0309.*test_export_environment.py"):
        whence.export(UsesValues().eval(), (torch.randn(2, 3),))


class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, times):
        return x * times

    @staticmethod
    def symbolic(g, x, times):
        return g.op("mine::Opaque", x, times_f=times)


class UsesOpaque(torch.nn.Module):
    def forward(self, x):
        return Opaque.apply(x, 2.0) + 1


def test_recording_a_trace_with_python_objects(tmp_path, quiet):
    """The trace's graph is released in the plugin, which does not hold the GIL."""
    with whence.record(tmp_path / "m.whence.json"):
        torch.onnx.export(UsesOpaque(), (torch.randn(2),), tmp_path / "m.onnx", dynamo=False)
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert ("mine", "Opaque") in [(node.domain, node.op_type) for node in graph.node]


@pytest.mark.parametrize("backend", ["native", "native-export", "torch-dynamo", "torch-torchscript"])
def test_stack_traces_begin_in_user_code(backend, quiet):
    nodes = whence.export(Small().eval(), X, backend=backend).model_proto.graph.node
    stacks = [entry.value for node in nodes for entry in node.metadata_props
              if entry.key == "pkg.torch.onnx.stack_trace"]
    assert stacks and all(stack.startswith('File "' + __file__) for stack in stacks), stacks


def test_is_in_onnx_export_is_restored_after_exports_in_threads(quiet):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: whence.unconvertible_ops(Small().eval(), X), range(3)))
    assert not torch.onnx.is_in_onnx_export()


class PadsToEven(torch.nn.Module):
    """Pads an odd length in Python; the example's length is even."""

    def forward(self, x):
        if x.shape[0] % 2:
            x = torch.cat([x, x[:1]])
        return x.view(x.shape[0] // 2, 2, 3).sum(1)


class InChunks(torch.nn.Module):
    """Loops in Python over chunks of 64; the example has one chunk."""

    def forward(self, x):
        n = x.shape[0]
        x = torch.nn.functional.pad(x, (0, 0, 0, (64 - n % 64) % 64)).view(-1, 64, 3)
        return torch.cat([x[i] * (i + 1) for i in range(x.shape[0])])[:n]


@pytest.mark.parametrize("model, rows, at", [(PadsToEven(), 4, "at 5"), (InChunks(), 6, "at 300")])
def test_axis_with_untraced_sizes_is_fixed_or_refused(model, rows, at):
    with pytest.warns(whence.WhenceWarning, match=f"E0304.*fixes axis 0 of 'x'.* {at}"):
        program = whence.export(model, torch.randn(rows, 3), dynamic_axes={"x": {0: "n"}})
    assert program.dynamic_axes == {}
    x = torch.randn(rows, 3)
    torch.testing.assert_close(program(x)[0], model(x))
    with pytest.raises(whence.WhenceError, match="E0304"):
        whence.export(model, torch.randn(rows, 3), dynamic_shapes={"x": {0: "n"}})


class Norms(torch.nn.Module):
    """PyTorch's Python code multiplies sizes in place and compares the product."""

    def __init__(self):
        super().__init__()
        self.group, self.instance = torch.nn.GroupNorm(2, 4), torch.nn.InstanceNorm2d(4)

    def forward(self, x):
        count = x.shape[0]
        count *= x.shape[1]
        return self.instance(self.group(x)) * (2 if count == 1 else 3)


class Packed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(3, 2, batch_first=True)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0]


def test_sizes_changed_in_place_are_not_tensor_values(recwarn):
    whence.export(Norms().eval(), torch.randn(2, 4, 5, 5), dynamic_axes={"x": {0: "n"}})
    whence.export(Packed().eval(), (torch.randn(2, 5, 3), torch.tensor([5, 3])))
    assert not [warning for warning in recwarn if "E0309" in str(warning.message)]
