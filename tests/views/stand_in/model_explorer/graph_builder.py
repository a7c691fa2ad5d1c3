"""Stand-ins for model-explorer's graph classes, with the same fields."""

from dataclasses import dataclass, field


@dataclass
class Graph:
    id: str
    nodes: list = field(default_factory=list)
    groupNodeAttributes: dict | None = None
    groupNodeConfigs: list | None = None
    nodeLabelsToHide: list | None = None
    tasksData: object = None
    layoutConfigs: object = None


@dataclass
class GraphNode:
    id: str
    label: str
    namespace: str = ""
    subgraphIds: list = field(default_factory=list)
    attrs: list = field(default_factory=list)
    incomingEdges: list = field(default_factory=list)
    outputsMetadata: list = field(default_factory=list)
    inputsMetadata: list = field(default_factory=list)
    style: object = None
    config: object = None


@dataclass
class IncomingEdge:
    sourceNodeId: str
    sourceNodeOutputId: str = "0"
    targetNodeInputId: str = "0"


@dataclass
class NodeIdsNodeAttributeValue:
    type: str = "node_ids"
    nodeIds: list = field(default_factory=list)


@dataclass
class KeyValue:
    key: str
    value: object


@dataclass
class MetadataItem:
    id: str
    attrs: list = field(default_factory=list)
