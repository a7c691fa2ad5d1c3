"""The models of the corpus and their recordings: the zoo's nine, the tuned and the further models. Noise makes every
parameter distinct, except in models that test initial parameters."""

import contextlib
import functools
import hashlib
import io
import subprocess
import warnings
from pathlib import Path

import torch

import file_cache
from accuracy import further_models, tuned_models
from models import zoo

ENTRIES = {**zoo.MODELS, **tuned_models.MODELS, **further_models.MODELS}
NAMES = tuple(ENTRIES)
# (type, heads, size of hidden states) for ONNX Runtime's optimiser of transformers
FUSION = {"bert_tiny": ("bert", 2, 128), "distilbert": ("bert", 4, 96), "gpt2": ("gpt2", 4, 96), "vit": ("vit", 4, 64)}


@contextlib.contextmanager
def quiet():
    """Silences exporters and optimisers."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@functools.cache
def canonical(name: str) -> dict[str, str]:
    """Maps every path of a module to the module's first path, as in named_modules()."""
    model = ENTRIES[name].model()
    first = {id(module): path for path, module in model.named_modules()}
    return {path: first[id(module)] for path, module in model.named_modules(remove_duplicate=False)}


def example(name: str) -> dict[str, torch.Tensor]:
    entry = ENTRIES[name]
    return entry.inputs(entry.first)


def positional(name: str) -> torch.nn.Module:
    """Returns the model for the TorchScript exporter."""
    return by_position(ENTRIES[name].model(), list(example(name)))


def by_position(model: torch.nn.Module, names: list[str]) -> torch.nn.Module:
    """Changes the model's forward into one that takes these arguments by position."""
    forward = model.forward
    model.forward = lambda *tensors: forward(**dict(zip(names, tensors, strict=True)))
    return model


def record(name: str, folder: Path, whence: Path) -> None:
    """Writes model.pt, and scripted.pt if scripting works, once; rewrites their sidecars for each new command."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "model.pt").exists():
        archive(name, folder)
    stamp, command_digest = folder / "recorded-by", digest_of(whence)
    if stamp.exists() and stamp.read_text() == command_digest:
        return
    for path in folder.glob("*.pt"):
        if path.stem != "inputs":
            run([whence, "record", path, "-o", folder / f"{path.stem}.whence.json", "--inputs", folder / "inputs.pt"])
    stamp.write_text(command_digest)


def archive(name: str, folder: Path) -> None:
    torch.save(example(name), folder / "inputs.pt")
    model = ENTRIES[name].model()
    with quiet():
        with contextlib.suppress(Exception):  # scripting fails on transformers' models, with various errors
            torch.jit.script(model).save(str(folder / "scripted.pt"))
        file_cache.cached(folder / "model.pt", lambda path: zoo.trace_module(model, example(name)).save(str(path)))


def digest_of(whence: Path) -> str:
    """Returns a digest of the command and of the libraries that it loads."""
    digest = hashlib.sha256()
    for path in [whence, *sorted((whence.resolve().parent.parent / "lib").glob("libwhence*"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def run(command: list) -> None:
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if result.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {result.returncode}\n{result.stderr}")
