"""Stand-ins for the classes of the package model_explorer that whence's extension uses, with the same names and fields.
tests/tool_dialects/test_in_model_explorer.py compares them with the package."""

from dataclasses import dataclass, field


@dataclass
class ExtensionMetadata:
    id: str = ""
    name: str = ""
    description: str = ""
    source_repo: str = ""


@dataclass
class AdapterMetadata(ExtensionMetadata):
    fileExts: list = field(default_factory=list)


@dataclass
class NodeDataProviderFilter:
    modelFileExts: list | None = None
    adapterIds: list | None = None


@dataclass
class NodeDataProviderMetadata(ExtensionMetadata):
    icon: str = "extension"
    filter: NodeDataProviderFilter | None = None


@dataclass
class NodeDataProviderResult:
    result: object = None
    error: str = ""


@dataclass
class GetConfigEditorsResult:
    configEditors: list | None = None
    error: str = ""


class Adapter:
    pass


class NodeDataProvider:
    pass


ModelExplorerGraphs = dict
