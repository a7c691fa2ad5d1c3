#!/bin/sh
# matrix_shard.sh [COMMIT]: the shard of the test matrix that continuous integration runs for a commit (HEAD), as in 3/16.
# Commits are as good as random numbers, so that every shard runs in some builds of any few dozen.
set -eu
shards=16
commit=${1:-$(git rev-parse HEAD)}
printf '%d/%d\n' "$((0x$(printf %.7s "$commit") % shards + 1))" "$shards"
