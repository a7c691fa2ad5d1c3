#!/bin/sh
# matrix_shard.sh [COMMIT]: the shard of the test matrix that continuous integration runs for a commit (HEAD), as in 3/8.
# Commits are as good as random numbers, so that every shard runs in some builds of any dozen or two.
set -eu
shards=8
commit=${1:-$(git rev-parse HEAD)}
printf '%d/%d\n' "$((0x$(printf %.7s "$commit") % shards + 1))" "$shards"
