#!/bin/bash
# The hook of .pre-commit-hooks.yaml: validates each committed ONNX file. Arguments that start with - are options of
# `whence validate`, written with = (--min=covered=99); all other arguments are files.
set -u

if ! command -v whence >/dev/null; then
  echo "whence is not on PATH; to install it: pip install whence-onnx" >&2
  exit 2
fi
options=() files=()
for word; do
  case $word in
    -*) options+=("$word") ;;
    *) files+=("$word") ;;
  esac
done
worst=0
for file in "${files[@]}"; do
  output=$(whence validate "$file" "${options[@]}" 2>&1)
  code=$?
  [ "$code" = 0 ] || printf '%s\n\n' "$output"
  [ "$code" -le "$worst" ] || worst=$code
done
exit "$worst"
