"""Stand-ins for model-explorer's node data classes, with the same fields."""

from dataclasses import dataclass, field


@dataclass
class GraphNodeData:
    results: dict
    name: str | None = None
    thresholds: list = field(default_factory=list)
    gradient: list = field(default_factory=list)
    hideInAggregatedStatsTable: bool = False
    hideInChildrenStatsTable: bool = False
    hideAggregatedStats: list | None = None
    showExpandedSummaryOnGroupNode: bool = False
    showLabelCountColumnsInChildrenStatsTable: bool = False


@dataclass
class NodeDataResult:
    value: object
    bgColor: str | None = None
    textColor: str | None = None


@dataclass
class GradientItem:
    stop: float
    bgColor: str | None = None
    textColor: str | None = None
