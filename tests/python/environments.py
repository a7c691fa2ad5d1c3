"""Virtual environments that hold chosen packages of the running one, and nothing else."""

import importlib.metadata
import os
import re
import venv
from pathlib import Path


def with_dependencies(package: str, found: set[str]) -> set[str]:
    """The names of a distribution and of all that it needs, as far as they are installed."""
    name = re.split(r"[^\w.-]", package, maxsplit=1)[0]
    try:
        needs = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return found
    if name.lower() not in found:
        found.add(name.lower())
        for need in needs:
            if "extra ==" not in need:
                with_dependencies(need, found)
    return found


def linked(environment: Path, packages: set[str]) -> Path:
    """An environment that holds these distributions of the running one, and nothing else. Returns its python."""
    venv.create(environment, with_pip=False)
    folder = next((environment / "lib").glob("python3*")) / "site-packages"
    for name in packages:
        for file in importlib.metadata.files(name) or []:
            top = file.parts[0]
            source = Path(file.locate()).parents[len(file.parts) - 2] if len(file.parts) > 1 else Path(file.locate())
            if top != ".." and source.exists() and not (folder / top).exists():
                (folder / top).symlink_to(source)
    return environment / "bin" / "python"


def clean_environment() -> dict[str, str]:
    """Without what says where whence or PyTorch is."""
    return {key: value for key, value in os.environ.items()
            if not key.startswith("WHENCE") and key not in ("PYTHONPATH", "TORCH_DIR", "VIRTUAL_ENV")}
