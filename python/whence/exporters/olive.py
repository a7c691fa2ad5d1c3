"""Olive's ONNX passes with origins: the nodes of a pass's output get those of its input.

    python -m whence.exporters.olive > passes.json
    olive run --config workflow.json --package-config passes.json

In Python: ``olive.workflows.run(config, package_config=whence.exporters.olive.package_config())``. The workflow does not
change, nor do the files except for metadata. A pass that makes an ONNX file of a PyTorch model is recorded, and its
sidecar stays next to the model. Each of Olive's ONNX passes is an attribute of this module under its own name.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..annotation.keep import keep
from ..annotation.reports import annotate
from ..base.optional_packages import import_optional
from ..errors import WhenceError
from ..recording.record import record

_MODULE = "whence.exporters.olive"  # __name__ differs in a run by `python -m`
_models, _hardware, _settings, _packages = (import_optional(f"olive.{name}", _MODULE, "olive-ai") for name in (
    "model", "hardware", "passes.pass_config", "package_config"))
_log = logging.getLogger(f"olive.{_MODULE}")  # Olive sets the level of its own loggers


def package_config() -> dict[str, Any]:
    """Returns Olive's package configuration with the ONNX passes of this module in place of its own."""
    config = _olive_config()
    for entry in config["passes"].values():
        if _is_onnx(entry):
            entry["module_path"] = f"{_MODULE}.{_class_name(entry)}"
    return config


def _olive_config() -> dict[str, Any]:
    return json.loads(Path(_packages.OlivePackageConfig.get_default_config_path()).read_text(encoding="utf-8"))


def _is_onnx(entry: dict[str, Any]) -> bool:
    return entry["module_path"].startswith("olive.passes.onnx.")


def _class_name(entry: dict[str, Any]) -> str:
    return entry["module_path"].rpartition(".")[2]


@functools.lru_cache
def __getattr__(name: str) -> Any:
    """Returns Olive's ONNX pass of this name, with origins."""
    entries = _olive_config()["passes"].values()
    entry = next((entry for entry in entries if _is_onnx(entry) and _class_name(entry) == name), None)
    if entry is None:
        raise AttributeError(f"Olive has no ONNX pass '{name}'")
    module = import_optional(entry["module_path"].rpartition(".")[0], f"Olive's pass {name}", "olive-ai")
    original = getattr(module, name)
    return type(name, (_WithOrigins, original), {"__doc__": original.__doc__, "__module__": _MODULE, "original": original})


class _WithOrigins:
    """What every pass of this module adds to Olive's."""

    original: Any

    def __init__(self, accelerator_spec: Any, config: Any, host_device: Any = None) -> None:
        super().__init__(_with_provider(accelerator_spec), config, host_device)  # type: ignore[call-arg]

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, Any]:
        origins = _settings.PassConfigParam(
            type_=bool, default_value=True, description="Keep the origins of the nodes, with whence.")
        return {**cls.original._default_config(_with_provider(accelerator_spec)), "origins": origins}

    def _run_for_config(self, model: Any, config: Any, output_model_path: str) -> Any:
        keeps_origins, config = config.origins, self._original_config(config)
        run = functools.partial(self.original._run_for_config, self, model, config, output_model_path)
        if not keeps_origins:
            return run()
        if isinstance(model, _models.ONNXModelHandler):
            return _carried(run, model)
        return _recorded(run)

    def _original_config(self, config: Any) -> Any:
        """Returns the configuration without the parameter of this module: passes hand their parameters on."""
        kind, _ = self.original.get_config_class(self.accelerator_spec, disable_search=True)  # type: ignore[attr-defined]
        return kind.model_construct(**{name: getattr(config, name) for name in kind.model_fields})


def _with_provider(accelerator: Any) -> Any:
    """Returns the accelerator with ONNX Runtime's provider for a CPU. Olive adds it by default, but only for passes whose
    module is in its own package."""
    if accelerator.execution_provider is None and accelerator.accelerator_type == _hardware.Device.CPU:
        return _hardware.AcceleratorSpec(accelerator.accelerator_type, "CPUExecutionProvider", memory=accelerator.memory)
    return accelerator


def _carried(run: Any, model: Any) -> Any:
    """Runs a pass on an ONNX file and writes the origins of its nodes into the output."""
    with keep():  # some passes edit a model of onnx_ir: the fused nodes are known best while they are made
        output = run()
    for path in _onnx_files(output):
        if not os.path.samefile(path, model.model_path):
            with _warned(f"the origins in {path} are those that the pass left"):
                annotate(path, source=model.model_path, names=False)
    return output


def _recorded(run: Any) -> Any:
    """Runs a pass that makes an ONNX file of another model, and writes origins into it."""
    output = None
    with tempfile.TemporaryDirectory(prefix="whence-") as folder:
        sidecar = Path(folder) / "model.whence.json"
        try:
            with record(sidecar), keep():
                output = run()
        except WhenceError as failure:  # of the recording
            if output is None:
                raise
            # A pass may build the file without PyTorch (E0106). Otherwise the user can do something about it.
            _log.log(logging.INFO if failure.code == "E0106" else logging.WARNING, "not recorded: %s", failure)
        files = list(_onnx_files(output))
        for path in files:
            with _warned(f"the origins in {path} are those that the pass wrote"):
                annotate(path, sidecar if sidecar.exists() and len(files) == 1 else None, names=False)
        if sidecar.exists() and len(files) == 1:
            _add_file(output, sidecar)
    return output


def _onnx_files(output: Any) -> Iterator[str]:
    """Yields the paths of the ONNX files of a pass's output."""
    if isinstance(output, _models.ONNXModelHandler):
        yield output.model_path
    elif isinstance(output, _models.CompositeModelHandler):
        for _, component in output.get_model_components():
            yield from _onnx_files(component)


def _add_file(output: Any, sidecar: Path) -> None:
    """Puts the sidecar next to the model. Olive copies such files from pass to pass."""
    target = Path(output.model_path).with_suffix(".whence.json")
    shutil.copyfile(sidecar, target)
    output.change_model_path_to_dir()
    attributes = dict(output.model_attributes or {})
    attributes["additional_files"] = sorted({*attributes.get("additional_files", []), str(target)})
    output.model_attributes = attributes


@contextmanager
def _warned(consequence: str) -> Iterator[None]:
    """Logs an error of whence, so that the workflow goes on."""
    try:
        yield
    except WhenceError as failure:
        _log.warning("%s: %s", consequence, failure)


def main() -> None:
    """Prints the package configuration."""
    json.dump(package_config(), sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
