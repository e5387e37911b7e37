#!/usr/bin/env bash
# lost_host.sh WINNOW MAKE_TINY_MODEL ACTION LIMIT_S, run by "hosts run 3": while three ranks on three hosts generate,
# one is lost.
#   kill-rank   SIGKILL to the rank on host h1
#   kill-host   SIGKILL to everything on h1, mpirun's daemon included
#   cut-link    h1's link goes down
# The job must end by itself within LIMIT_S seconds, with an exit code that is not 0, and leave no process on any host,
# the lost one included.
set -euo pipefail
winnow="$1" make_tiny_model="$2" action="$3" limit_s="$4"
hosts="$(dirname "${BASH_SOURCE[0]}")/hosts"
work=/dev/shm  # one beside the hosts and one on each of them, gone with the cluster

fail() {
  echo "FAIL: $1"
  "$hosts" ps
  tail -n 20 "$work/errors"
  exit 1
}
# within SECONDS COMMAND...: waits until the command succeeds.
within() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [[ $SECONDS -lt $deadline ]] || return 1
    sleep 0.1
  done
}
has_answered() { grep -qs '^--- request 0 ' "$work/output"; }
job_is_over() { ! kill -0 "$job" 2>/dev/null; }
hosts_are_empty() { [[ -z "$("$hosts" ps)" ]]; }
seconds_since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f", to - from }'; }

for host in h0 h1 h2; do "$hosts" exec "$host" "$make_tiny_model" "$work/model.gguf"; done
# A short request, so that it is seen when generation runs, and far more than can be done before the end.
{
  echo '{"prompt": "hello", "max_tokens": 4}'
  for ((i = 0; i < 1000; i++)); do echo '{"prompt": "hello world, ", "max_tokens": 4000, "ignore_eos": true}'; done
} | "$hosts" exec h0 tee "$work/prompts.jsonl" >/dev/null
"$hosts" mpirun -np 3 "$winnow" generate --model "$work/model.gguf" --prompts "$work/prompts.jsonl" \
  --max-num-seqs 2 --threads 1 >"$work/output" 2>"$work/errors" </dev/null &
job=$!
within 60 has_answered || fail "no answer in 60 s"
[[ "$("$hosts" ps | grep -c -F "$winnow generate")" -ge 3 ]] || fail "expected a rank on every host"

start="$EPOCHREALTIME"
case "$action" in
  kill-rank) kill -KILL "$("$hosts" ps | awk -v winnow="$winnow" '$1 == "h1" && $3 == winnow { print $2 }')" ;;
  kill-host) "$hosts" kill h1 ;;
  cut-link) "$hosts" cut h1 ;;
  *) fail "unknown action $action" ;;
esac
within "$limit_s" job_is_over || fail "$action: the job still runs after $limit_s s"
status=0
wait "$job" || status=$?
echo "$action: mpirun ended with exit code $status after $(seconds_since "$start") s"
[[ "$status" -ne 0 ]] || fail "$action: exit code 0"
within "$limit_s" hosts_are_empty || fail "$action: processes are left"
echo "$action: no process on any host after $(seconds_since "$start") s"
cat "$work/errors"
