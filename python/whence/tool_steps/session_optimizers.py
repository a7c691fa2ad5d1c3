"""Optimisers of ONNX Runtime that write an optimised file. A session accepts names of optimisers to switch off."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from .steps import Steps

_TRANSFORMER = re.compile(r"GraphTransformer (\w+) modified: \d")
# Rules of the rule-based transformers, which the log does not name (graph_transformer_utils.cc). A session ignores
# names that its version does not have.
_RULES = ("EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout", "ExpandElimination",
          "CastElimination", "CastChainElimination", "PreShapeNodeElimination", "NoopElimination", "DivMulFusion",
          "FuseReluClip", "GemmSumFusion", "GemmTransposeFusion", "NotWhereFusion", "ConvAddFusion", "ConvMulFusion",
          "ConvBNFusion", "Pad_Fusion", "MatMul_BatchNormalization_Fusion", "LabelEncoderFusion", "ClipQuantRewrite",
          "ReluQuantRewrite")
# Transformers of versions that do not log them, up to 1.18.
_TRANSFORMERS = ("ConstantSharing", "CommonSubexpressionElimination", "ConstantFolding", "MatMulAddFusion", "ReshapeFusion",
                 "FreeDimensionOverrideTransformer", "QDQPropagationTransformer", "TransposeOptimizer",
                 "QDQS8ToU8Transformer", "QDQSelectorActionTransformer", "GemmActivationFusion",
                 "MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion", "ConvActivationFusion", "GeluFusion",
                 "LayerNormFusion", "SimplifiedLayerNormFusion", "AttentionFusion", "EmbedLayerNormFusion",
                 "GatherToSplitFusion", "GatherToSliceFusion", "MatmulTransposeFusion", "BiasGeluFusion",
                 "SkipLayerNormFusion", "FastGeluFusion", "QuickGeluFusion", "BiasSoftmaxFusion", "BiasDropoutFusion",
                 "MatMulScaleFusion", "MatMulActivationFusion", "QDQFinalCleanupTransformer", "NchwcTransformer",
                 "NhwcTransformer", "ConvAddActivationFusion")
_INFO = 1


def _patch(module: Any, steps: Steps, replace: Callable) -> None:
    def ask(original: Callable) -> Callable:
        def create(self: Any, providers: Any, provider_options: Any, disabled_optimizers: Any = None) -> None:
            session_options = self._sess_options
            if session_options is None or not session_options.optimized_model_filepath:
                return original(self, providers, provider_options, disabled_optimizers)
            disabled = set(disabled_optimizers or ())
            names = [each for each in _optimizers(lambda: original(self, providers, provider_options, disabled),
                                                  session_options) if each not in disabled]
            allowed = set(steps.allowed("ONNX Runtime", names))
            self._sess_options = session_options
            return original(self, providers, provider_options, disabled | {each for each in names if each not in allowed})

        return create

    replace(module.InferenceSession, "_create_inference_session", ask)


def _optimizers(start: Callable[[], None], session_options: Any) -> list[str]:
    """Starts a session. Returns its optimisers in the order in which they run first, by its log."""
    level = session_options.log_severity_level
    session_options.log_severity_level = _INFO
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            start()
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            session_options.log_severity_level = level
        log.seek(0)
        found = _TRANSFORMER.findall(log.read().decode("utf-8", "replace"))
    if not found:
        return [*_RULES, *_TRANSFORMERS]
    names: dict[str, None] = {}
    for name in found:
        names.update(dict.fromkeys(_RULES if name.endswith("RuleBasedTransformer") else (name,)))
    return list(names)


PATCHES = {"onnxruntime.capi.onnxruntime_inference_collection": _patch}
