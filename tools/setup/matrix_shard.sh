#!/bin/sh
# matrix_shard.sh [COMMIT]: prints the shard of the test matrix that continuous integration runs for a commit (HEAD by
# default), such as 3/16. Hashes are like random numbers, so a few dozen builds run every shard.
set -eu
shards=16
commit=${1:-$(git rev-parse HEAD)}
printf '%d/%d\n' "$((0x$(printf %.7s "$commit") % shards + 1))" "$shards"
