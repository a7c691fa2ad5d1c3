"""What whence must reach on the quick set of test_accuracy.py: per cent of nodes exact, for each exporter."""

FLOORS = {
    # what the command is given: {transformation: (dynamo, TorchScript)}
    "sidecar": {
        "exported": (0, 0),
        "stripped": (0, 0),
        "nodes-renamed": (0, 0),
        "renamed": (0, 0),
        "ort-basic": (0, 0),
        "ort-extended": (0, 0),
        "onnxslim": (0, 0),
        "onnxsim": (0, 0),
        "float16": (0, 0),
        "int8": (0, 0),
        "qdq": (0, 0),
        "renamed+ort-extended": (0, 0),
    },
    "before": {  # the annotated file that the tool was given
        "ort-extended": (0, 0),
        "onnxslim": (0, 0),
        "int8": (0, 0),
        "renamed+ort-extended": (0, 0),
    },
}

# What a confidence value promises: per cent of the nodes that carry it are exact.
PROMISED = {"exact": 100, "matched": 99.5, "inferred": 97}
