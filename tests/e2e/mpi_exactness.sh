#!/usr/bin/env bash
# mpi_exactness.sh PROGRAM MODEL MPIRUN FLAGS...: the same requests on 1, 2, 3 and 9 processes, with 1 to 3 threads each,
# with other prompt chunks, and in a job whose ranks use different kernels, must print the same lines. Exit code 77: skipped.
set -euo pipefail
program="$1"
model="$2"
shift 2
mpirun=("$@")
if [[ "$model" == "WINNOW_MODEL" ]]; then
  [[ -n "${WINNOW_MODEL:-}" ]] || { echo "WINNOW_MODEL is not set"; exit 77; }
  model="$WINNOW_MODEL"
fi

expected="$("${mpirun[@]}" -np 1 "$program" "$model" 1 auto)"
[[ -n "$expected" ]] || { echo "FAIL: one rank printed nothing"; exit 1; }
echo "$expected"
status=0
compare() {
  local name="$1" found
  shift
  found="$("${mpirun[@]}" "$@")" || { echo "FAIL: $name: exit code $?"; status=1; return; }
  if [[ "$found" == "$expected" ]]; then
    echo "same: $name"
  else
    echo "FAIL: $name differs:"
    echo "$found"
    status=1
  fi
}
compare "2 ranks" -np 2 "$program" "$model" 1 auto
compare "3 ranks" -np 3 "$program" "$model" 1 auto
# A query head each. More processes than cores must not spin while they wait.
compare "9 ranks" --mca mpi_yield_when_idle 1 -np 9 "$program" "$model" 1 auto
compare "1 rank, 3 threads, chunks of 7" -np 1 "$program" "$model" 3 auto 7
compare "2 ranks, 2 threads" -np 2 "$program" "$model" 2 auto
# Every two neighbours in the list of kernels that this CPU runs: avx512 beside avx2, avx2 beside plain.
mapfile -t kernels < <("$program" kernels)
[[ ${#kernels[@]} -ge 2 ]] || { echo "FAIL: expected two kernel sets or more, found: ${kernels[*]}"; exit 1; }
echo "kernels of this CPU: ${kernels[*]}"
for ((i = 0; i + 1 < ${#kernels[@]}; ++i)); do
  compare "a rank with ${kernels[i]} and one with ${kernels[i + 1]}" \
    -np 1 "$program" "$model" 1 "${kernels[i]}" : -np 1 "$program" "$model" 1 "${kernels[i + 1]}"
done
if [[ "$model" == tiny ]]; then
  compare "3 ranks, 2 threads, chunks of 1" -np 3 "$program" "$model" 2 auto 1
  compare "5 ranks, chunks of 7" --mca mpi_yield_when_idle 1 -np 5 "$program" "$model" 1 auto 7
  compare "2 ranks, 3 threads, chunks of 64" -np 2 "$program" "$model" 3 auto 64
fi
exit "$status"
