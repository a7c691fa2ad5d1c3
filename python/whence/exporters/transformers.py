"""A drop-in for ``transformers.exporters.OnnxExporter`` whose models have an origin on every node.

    from whence.exporters.transformers import OnnxExporter

    exported = OnnxExporter().export(model, inputs, config=OnnxConfig(dynamic=True, ort_fusions="cpu"))
    exported.save_pretrained("exported")  # also writes model.whence.json

PyTorch's file is annotated before transformers fuses its nodes, and ``whence.keep`` observes the fusions.
"""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..annotation.keep import keep
from ..annotation.reports import annotate
from ..base import library_warnings
from ..base.optional_packages import import_optional
from ..errors import WhenceError, WhenceWarning

_library = import_optional("transformers.exporters", "whence.exporters.transformers")
_SIDECAR = "whence.sidecar"  # the key of the sidecar in the meta of an onnx_ir.Model, which files do not store


class ExportedModel(_library.ExportedModel):  # type: ignore[misc, name-defined]
    """transformers' ExportedModel with the sidecars of its components."""

    @property
    def sidecars(self) -> dict[str, bytes]:
        """The sidecar of each component. Lacks a component whose program could not be recorded; its nodes then have the
        modules that PyTorch states."""
        programs = {name: component.program for name, component in self.components.items()}
        return {name: program.meta[_SIDECAR] for name, program in programs.items() if _SIDECAR in program.meta}

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **kwargs: Any) -> None:
        """Also writes each sidecar next to its component: ``model.whence.json``."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, sidecar in self.sidecars.items():
            (folder / _sidecar_name(name)).write_bytes(sidecar)
        super().save_pretrained(save_directory, push_to_hub, **kwargs)

    def _get_files_timestamps(self, working_dir: str | Path) -> dict[str, float]:
        """Leaves out the sidecars, so that the upload to the Hub takes them for new files."""
        own = {_sidecar_name(name) for name in self.components}
        return {file: time for file, time in super()._get_files_timestamps(working_dir).items() if file not in own}


def _sidecar_name(component: str) -> str:
    return f"{component}.whence.json"


class OnnxExporter(_library.OnnxExporter):  # type: ignore[misc, name-defined]
    """transformers' OnnxExporter; the nodes of its models have origins, and the results their sidecars."""

    def export(self, *args: Any, **kwargs: Any) -> ExportedModel:
        return _with_sidecars(super().export(*args, **kwargs))

    def export_for_generation(self, *args: Any, **kwargs: Any) -> ExportedModel:
        return _with_sidecars(super().export_for_generation(*args, **kwargs))

    def export_program(self, model: Any, sample_inputs: MutableMapping[str, Any], config: Any) -> tuple[Any, Any]:
        quantizer = config.quantizer
        quantizes_nodes = quantizer is not None and not quantizer.quantizes_fx_graph
        if quantizes_nodes:  # in a step of its own, because the quantised model is matched with the one before
            quantizer.validate_environment(config.export_format)
        with tempfile.TemporaryDirectory(prefix="whence-") as folder:
            sidecar = Path(folder) / "model.whence.json"
            with keep(), _annotated_exports(sidecar):
                program, metadata = super().export_program(
                    model, sample_inputs, dataclasses.replace(config, quantizer=None) if quantizes_nodes else config)
            if quantizes_nodes:
                quantized = quantizer.quantize(program, sample_inputs, config.export_format)
                annotate(quantized, source=program)
                program = quantized
            if sidecar.exists():
                program.meta[_SIDECAR] = sidecar.read_bytes()
        return program, metadata


def _with_sidecars(exported: Any) -> ExportedModel:
    return ExportedModel(exported.components, exported.export_format, exported.config, exported.generation_config)


@contextmanager
def _annotated_exports(sidecar: Path) -> Iterator[None]:
    """Records the program that torch.onnx.export gets inside the block, and annotates its result."""
    torch = import_optional("torch", "whence.exporters.transformers")
    from ..capture import exported_programs

    with exported_programs.captured() as programs:  # also wraps torch.export: transformers changes the program afterwards
        export = torch.onnx.export

        def annotating(*args: Any, **kwargs: Any) -> Any:
            result = export(*args, **kwargs)
            if programs:
                _record(programs[-1], sidecar)
            annotate(result, sidecar if sidecar.exists() else None)
            return result

        torch.onnx.export = annotating
        try:
            yield
        finally:
            torch.onnx.export = export


def _record(program: Any, sidecar: Path) -> None:
    from ..capture import exported_programs

    try:
        with library_warnings.hidden():
            _, diagnostics = exported_programs.write(program, sidecar)
    except WhenceError as failure:
        diagnostics = exported_programs.unrecorded(program, failure, sidecar)
    for diagnostic in diagnostics:
        warnings.warn(str(diagnostic), WhenceWarning, stacklevel=2)
