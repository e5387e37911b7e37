#!/usr/bin/env bash
# unreadable_model.sh WINNOW MAKE_TINY_MODEL, run by "hosts run 2": the model lies on host h0 only. The job must end
# within 10 s with exit code 3 and a message that names the rank, its host and the path, and leave no process behind.
set -euo pipefail
winnow="$1" make_tiny_model="$2"
hosts="$(dirname "${BASH_SOURCE[0]}")/hosts"
path=/dev/shm/model.gguf  # a different folder on every host
generate=("$winnow" generate --model "$path" --prompt hello --max-tokens 4)

fail() {
  echo "FAIL: $1"
  exit 1
}
"$hosts" exec h0 "$make_tiny_model" "$path"
"$hosts" mpirun --host h0:2 -np 2 "${generate[@]}" </dev/null || fail "exit code $? on h0 alone, where the model is"

start="$EPOCHREALTIME" status=0
output="$(timeout 30 "$hosts" mpirun -np 2 "${generate[@]}" 2>&1 </dev/null)" || status=$?
seconds="$(awk -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f", to - from }')"
echo "$output"
echo "exit code $status after $seconds s"
[[ "$status" -eq 3 ]] || fail "expected exit code 3"
[[ "${seconds%.*}" -lt 10 ]] || fail "expected an end within 10 s"
grep -q "rank 1.*h1.*$path" <<<"$output" || fail "expected a line that names rank 1, host h1 and $path"
[[ -z "$("$hosts" ps)" ]] || fail "processes are left: $("$hosts" ps)"
