"""The minimum percentages of exact nodes on the quick set of test_accuracy.py, for each exporter."""

FLOORS = {
    # input of the command: {transformation: (dynamo, TorchScript)}
    "sidecar": {
        "exported": (99.4, 99.9),
        "stripped": (97.8, 99.9),
        "nodes-renamed": (97.8, 99.9),
        "renamed": (97.8, 93.8),
        "ort-basic": (94.3, 97.9),
        "ort-extended": (94.7, 96.8),
        "onnxslim": (97.8, 99.9),
        "onnxsim": (97.8, 99.9),
        "float16": (99.4, 99.9),
        "int8": (99.7, 99.9),
        "qdq": (99.4, 99.9),
        "renamed+ort-extended": (94.7, 93.7),
    },
    "weights": {  # without a recording, a node between readers of parameters gets only their common module
        "exported": (77.0, 96.0),
        "renamed": (72.0, 67.5),
        "ort-extended": (48.5, 62.5),
        "int8": (71.5, 87.0),
    },
    "before": {  # --from the tool's annotated input file
        "ort-extended": (98.2, 98.7),
        "onnxslim": (99.4, 99.9),
        "int8": (99.7, 99.5),
        "renamed+ort-extended": (96.4, 96.2),
    },
}

# The promise of each confidence value: the percentage of its nodes that are exact, or for `ancestor` of nodes whose
# true module is the named module or inside it.
PROMISED = {"exact": 100, "matched": 99.5, "inferred": 97, "ancestor": 99.5}
