#!/bin/sh
# Makes the corpus of tests/accuracy, then scores the command on it.
. "$(dirname "$0")/common.sh"

python=build/venv/bin/python
step "making the corpus: exports, transformations and their ground truth (build/accuracy; once, about twenty minutes)"
quietly "making the corpus" $python tests/accuracy/corpus.py
for evidence in sidecar values scripted nothing before; do
  step "scoring with: $evidence"
  $python tests/accuracy/score.py --with $evidence
done
