#!/bin/bash
# The second step of action.yml: annotates and validates ONNX files. Writes a SARIF file for each model and comment.md to
# WHENCE_FOLDER, prints annotations for the workflow, and exits with 1 if there are findings.
# Reads the variables WHENCE_MODELS, WHENCE_SIDECAR, WHENCE_ANNOTATE, WHENCE_BASELINE, WHENCE_OPTIONS, WHENCE_FOLDER and
# WHENCE_FAIL. Writes to the files in GITHUB_OUTPUT and GITHUB_STEP_SUMMARY, if set.
set -euo pipefail
shopt -s nullglob globstar

folder=${WHENCE_FOLDER:-whence-results}
mkdir -p "$folder/sarif"
comment=$folder/comment.md
printf '## Where ONNX nodes come from\n' >"$comment"

models=()
while IFS= read -r line; do
  [ -n "$line" ] || continue
  if [ -e "$line" ]; then
    models+=("$line")
    continue
  fi
  # Expands a glob; a name with spaces stays one word.
  IFS= found=($line)
  unset IFS
  if [ ${#found[@]} = 0 ]; then
    echo "::error title=whence::no ONNX file is called $line"
    exit 2
  fi
  models+=("${found[@]}")
done <<<"${WHENCE_MODELS:-}"
if [ ${#models[@]} = 0 ]; then
  echo "::error title=whence::models names no ONNX file"
  exit 2
fi
if [ "${WHENCE_ANNOTATE:-false}" = true ] && [ -z "${WHENCE_SIDECAR:-}${WHENCE_BASELINE:-}" ]; then
  echo "::error title=whence::annotate: true needs a sidecar or a baseline"
  exit 2
fi

options=()
[ -z "${WHENCE_SIDECAR:-}" ] || options+=(--sidecar "$WHENCE_SIDECAR")
# Without a sidecar, origins are copied from the baseline with lower confidence, so the two are not compared.
if [ -n "${WHENCE_BASELINE:-}" ] && { [ "${WHENCE_ANNOTATE:-false}" != true ] || [ -n "${WHENCE_SIDECAR:-}" ]; }; then
  options+=(--baseline "$WHENCE_BASELINE")
fi
while IFS= read -r line; do
  [ -z "$line" ] || options+=("$line")
done <<<"${WHENCE_OPTIONS:-}"

# Annotates $1 into the folder, even if its path contains "../", and prints the path of the annotated file.
annotate() {
  local target=$folder/${1//..\//_/}
  mkdir -p "$(dirname "$target")"
  if [ -n "${WHENCE_SIDECAR:-}" ]; then
    whence annotate "$1" --sidecar "$WHENCE_SIDECAR" -o "$target" >&2 || return
  else
    whence annotate "$1" --from "$WHENCE_BASELINE" -o "$target" >&2 || return
  fi
  printf '%s\n' "$target"
}

# could_not_be MODEL WHAT CODE: ends the step with an error, which does not count as a finding.
could_not_be() {
  echo "::error title=whence::$1 could not be $2, exit code $3"
  exit "$3"
}

worst=0
for number in "${!models[@]}"; do
  model=${models[$number]}
  if [ "${WHENCE_ANNOTATE:-false}" = true ]; then
    annotated=$(annotate "$model") || could_not_be "$model" annotated $?
    model=$annotated
  fi
  text=$folder/text
  code=0
  whence validate "$model" "${options[@]}" --format sarif -o "$folder/sarif/$number.sarif" --format text -o "$text" \
    --format github || code=$?
  [ "$code" -le 1 ] || could_not_be "$model" checked "$code"
  [ "$code" -le "$worst" ] || worst=$code
  {
    printf '\n### `%s`: %s\n\n' "$model" "$([ "$code" = 0 ] && echo nothing found || echo findings)"
    # Copies the findings, which start at the line `checks`, without the tables before it.
    sed -n '/^checks$/,$p' "$text" | sed -e 's/^checks$/```/' && printf '```\n'
    printf '\n<details><summary>Coverage by module</summary>\n\n'
    whence report "$model" -o "$folder/report.md" >/dev/null && cat "$folder/report.md"
    printf '\n</details>\n'
  } >>"$comment"
done
rm -f "$folder/text" "$folder/report.md"

if [ -n "${GITHUB_OUTPUT:-}" ]; then
  {
    printf 'findings=%s\n' "$([ "$worst" = 0 ] && echo false || echo true)"
    printf 'comment=%s\nsarif=%s\n' "$comment" "$folder/sarif"
  } >>"$GITHUB_OUTPUT"
fi
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$comment" >>"$GITHUB_STEP_SUMMARY"
[ "${WHENCE_FAIL:-true}" = true ] || worst=0
exit "$worst"
