#!/bin/sh
# The accuracy tables: makes the corpus of tests/accuracy, then scores the command on it.
. "$(dirname "$0")/common.sh"

python=build/venv/bin/python
step "the corpus: exports, transformations and their truth (build/accuracy; made once, some twenty minutes)"
quietly "making the corpus" $python tests/accuracy/corpus.py
for given in sidecar values scripted nothing before; do
  step "score, given: $given"
  $python tests/accuracy/score.py --with $given
done
