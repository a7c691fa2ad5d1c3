"""Lists the third-party packages in the fully static command, from the files that the linker opened and the compiled headers.

    linked.py BUILD      prints a line for each: name, version, licence file
"""

import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

# Packages that are found by their archives, so their headers are ignored.
SYSTEM = re.compile(r"libc6|libcrypt|libgcc|libstdc\+\+|linux-libc")


@dataclass(frozen=True, order=True)
class Package:
    name: str
    version: str
    architecture: str  # Debian's name; "" for a package that is not from Debian
    licence: Path | None

    @property
    def purl(self) -> str:
        """The package URL: https://github.com/package-url/purl-spec."""
        version = self.version.replace("+", "%2B").replace(":", "%3A")
        if not self.architecture:
            return f"pkg:pypi/{self.name}@{version}"
        return f"pkg:deb/debian/{self.name}@{version}?arch={self.architecture}"


def archives(build: Path) -> set[Path]:
    """Returns the files that the linker opened, without whence's own objects."""
    lines = (build / "static" / "whence.d").read_text().replace("\\\n", " ").split("\n")
    names = next(line for line in lines if ":" in line).partition(":")[2].split()
    files = {(build / name).resolve() for name in names}
    return {file for file in files if file.suffix in (".a", ".o") and not file.is_relative_to(build.resolve())}


def headers(build: Path) -> set[Path]:
    """Returns the system headers that the command was compiled with: some libraries consist only of headers."""
    ninja = shutil.which("ninja") or "ninja"
    blocks = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout.split("\n\n")
    own = [block for block in blocks if re.match(r"CMakeFiles/whence(?!_recorder)\w*\.dir/", block)]
    return {Path(line.strip()) for block in own for line in block.split("\n") if line.startswith("    /usr/")}


@functools.cache
def installed() -> dict[str, tuple[str, str, str]]:
    """Returns name, version and architecture of each installed package, by "name:architecture"."""
    form = "${binary:Package} ${Package} ${Version} ${Architecture}\n"
    rows = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout.split("\n")
    return {words[0]: (words[1], words[2], words[3]) for words in map(str.split, rows) if len(words) == 4}


def packages_of(files: set[Path]) -> set[Package]:
    """Returns the Debian packages that the files belong to."""
    if not files or shutil.which("dpkg-query") is None:
        return set()
    # If /lib is a link to /usr/lib, packages may still list their files under /lib.
    named = [str(file) for file in files] + [str(file).removeprefix("/usr") for file in files]
    lines = subprocess.run(["dpkg-query", "-S", *sorted(named)], capture_output=True, text=True, check=False).stdout.split("\n")
    found = set()
    for line in lines:
        owners, _, path = line.rpartition(": ")
        for owner in owners.split(", ") if path else []:
            name, version, architecture = installed().get(owner) or installed()[owner.partition(":")[0]]
            licence = Path("/usr/share/doc") / name / "copyright"
            found.add(Package(name, version, architecture, licence if licence.exists() else None))
    return found


def linked(build: Path) -> list[Package]:
    """Returns all third-party packages in the command, sorted."""
    files = archives(build)
    onnx = {re.search(r"onnx-([0-9.]+[0-9])", str(file))[1] for file in files if "/onnx-" in str(file)}
    packages = packages_of(files)
    seen = {package.name for package in packages}
    processors = {package.architecture for package in packages if not SYSTEM.match(package.name)} | {"all"}
    # A header belongs to a package for each installed architecture: prefers the architecture of the archives.
    by_name = {package.name: package for package in
               sorted(packages_of(headers(build)), key=lambda package: package.architecture in processors)}
    packages |= {package for name, package in by_name.items() if name not in seen and not SYSTEM.match(name)}
    return sorted(packages) + [Package("onnx", version, "", None) for version in sorted(onnx)]


def third_party(build: Path) -> str:
    """Returns all licence texts, each once, after the names of its packages."""
    holders: dict[str, list[str]] = {}
    for package in linked(build):
        text = package.licence.read_text(errors="replace") if package.licence else "Apache-2.0: the text of LICENSE\n"
        holders.setdefault(text, []).append(f"{package.name} {package.version}")
    line = "=" * 100
    return "\n".join(f"{line}\n{', '.join(names)}\n{line}\n\n{text}" for text, names in holders.items())


def bill(build: Path, name: str, version: str, command: Path) -> str:
    """Returns the software bill of materials as CycloneDX 1.6 JSON. The same command gives the same text."""
    digest = hashlib.sha256(command.read_bytes()).hexdigest()
    components = [{"type": "library", "name": package.name, "version": package.version, "purl": package.purl,
                   "bom-ref": package.purl, "scope": "required"} for package in linked(build)]
    main = {"type": "application", "name": name, "version": version, "bom-ref": name,
            "licenses": [{"license": {"id": "Apache-2.0"}}], "hashes": [{"alg": "SHA-256", "content": digest}]}
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
                "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
                "metadata": {"component": main}, "components": components,
                "dependencies": [{"ref": name, "dependsOn": [each["purl"] for each in components]},
                                 *({"ref": each["purl"]} for each in components)]}
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    for each in linked(Path(sys.argv[1])):
        print(each.name, each.version, each.licence or "")
