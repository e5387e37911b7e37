#!/usr/bin/env bash
# exactness.sh PROGRAM tiny|WINNOW_MODEL LAYOUT..., run by "hosts run 3": the same requests, on one rank of one host and
# over hosts, must print the same lines (PROGRAM is tests/e2e/mpi_exactness_main.cpp). A layout is what mpirun's --host
# takes: h0:2,h1:1 is three ranks, two of them on h0. Each layout must have run where it says, and its hosts must have
# talked over the wire. Exit code 77: skipped.
set -euo pipefail
program="$1" model="$2"
shift 2
if [[ "$model" == WINNOW_MODEL ]]; then
  [[ -n "${WINNOW_MODEL:-}" ]] || { echo "WINNOW_MODEL is not set"; exit 77; }
  model="$WINNOW_MODEL"
fi
hosts="$(dirname "${BASH_SOURCE[0]}")/hosts"
work=/dev/shm  # beside the hosts, gone with the cluster

fail() {
  echo "FAIL: $1"
  exit 1
}
# Every rank says where it is before it becomes the program.
# shellcheck disable=SC2016  # expanded on the host
readonly kRank='echo "rank $OMPI_COMM_WORLD_RANK on $(hostname)" >&2; exec "$0" "$@"'
run() {
  "$hosts" mpirun --host "$1" sh -c "$kRank" "$program" "$model" 1 auto >"$work/output" 2>"$work/errors" </dev/null ||
    fail "exit code $? on $1: $(cat "$work/errors")"
}
# Where the ranks were, as a layout: "h0:2,h1:1".
layout_seen() {
  sed -n 's/^rank [0-9]* on //p' "$work/errors" | sort | uniq -c | awk '{ print $2 ":" $1 }' | paste -s -d ,
}
sent_bytes() { "$hosts" exec "$1" cat /proc/net/dev | awk '$1 == "eth0:" { print $10 }'; }

run h0:1
expected="$(cat "$work/output")"
[[ -n "$expected" ]] || fail "one rank printed nothing"
echo "$expected"
for layout in "$@"; do
  before="$(sent_bytes h1)"
  run "$layout"
  sent=$(($(sent_bytes h1) - before))
  sort "$work/errors"
  [[ "$(layout_seen)" == "$layout" ]] || fail "expected ranks on $layout, found $(layout_seen)"
  [[ "$(cat "$work/output")" == "$expected" ]] || fail "$layout differs: $(cat "$work/output")"
  # The sums of a run are megabytes; mpirun's own messages a few kilobytes.
  [[ "$sent" -gt 500000 ]] || fail "$layout: h1 sent $sent bytes, so the ranks did not talk over its link"
  echo "same: $layout (h1 sent $sent bytes)"
done
