"""Stand-in for a form field of model-explorer's viewer."""

from dataclasses import dataclass, field


@dataclass
class FileConfigEditor:
    type: str = "file"
    id: str = ""
    label: str = ""
    description: str = ""
    help: str = ""
    required: bool = False
    defaultValue: object = None
    fileExts: list = field(default_factory=list)
