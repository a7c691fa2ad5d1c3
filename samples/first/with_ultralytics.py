"""Annotates a file that ultralytics exports: with_ultralytics.py FOLDER"""

import sys

import torch
from shown import enter_output_folder, whence as command
from ultralytics import YOLO

import whence


def main() -> int:
    enter_output_folder()
    torch.manual_seed(0)

    model = YOLO("yolo11n.yaml")  # yours: YOLO("yolo11n.pt")
    with whence.record("yolo11n.whence.json"):
        model.export(format="onnx", imgsz=64, simplify=False)
    whence.annotate("yolo11n.onnx", "yolo11n.whence.json")

    command("show yolo11n.onnx --depth 2")
    command("explain yolo11n.onnx /model.23/dfl/Softmax --sidecar yolo11n.whence.json")
    command("select yolo11n.onnx --modules model.23 --ops Conv --format ort-quant")
    return 0 if whence.validate("yolo11n.onnx").coverage.percent > 95 else 1


if __name__ == "__main__":
    sys.exit(main())
