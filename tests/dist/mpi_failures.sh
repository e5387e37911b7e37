#!/usr/bin/env bash
# How a group ends when a rank fails: within seconds, with the right exit code, the cause named once, nothing left over.
# Usage: mpi_failures.sh CASE PROGRAM MPIRUN [FLAGS...]   (PROGRAM is mpi_failures, CASE one of its modes and more)
set -u
case_name="$1" program="$2"
shift 2
mpirun=("$@")
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAIL $case_name: $1"
  failures=1
}

# run CODE COMMAND...: output in $work/output; the exit code must be CODE ("any": not 0), within 30 s.
run() {
  local expected="$1" code=0 started="$SECONDS"
  shift
  timeout 60 "$@" > "$work/output" 2>&1 || code=$?
  if [[ "$expected" == any ]]; then
    [[ "$code" -ne 0 && "$code" -ne 124 ]] || fail "expected a failure, found exit code $code"
  else
    [[ "$code" -eq "$expected" ]] || fail "expected exit code $expected, found $code"
  fi
  local seconds=$((SECONDS - started))
  [[ "$seconds" -le 30 ]] || fail "expected an end within 30 s, found $seconds s"
}

# expect_lines COUNT PATTERN: so many lines of the output match.
expect_lines() {
  local found
  found="$(grep -cE -- "$2" "$work/output")"
  [[ "$found" -eq "$1" ]] || fail "expected $1 line(s) with '$2', found $found"
}

# Every rank has left its process id; none may still run. A zombie is dead: who inherits it need not collect it.
expect_no_orphans() {
  local num_ranks="$1" file pid state
  for ((rank = 0; rank < num_ranks; ++rank)); do
    file="$work/pid.$rank"
    [[ -s "$file" ]] || { fail "rank $rank has never started"; continue; }
    pid="$(< "$file")"
    for ((try = 0; try < 50; ++try)); do
      state="$(sed -n 's/^State:[[:space:]]*\([A-Z]\).*/\1/p' "/proc/$pid/status" 2> /dev/null)"
      [[ -z "$state" || "$state" == Z ]] && continue 2
      sleep 0.1
    done
    fail "rank $rank (process $pid) still runs"
  done
}

case "$case_name" in
  abort)
    run 3 "${mpirun[@]}" -np 3 "$program" abort "$work"
    expect_lines 1 '^winnow: rank 2 \(host [^ )]+\): model\.gguf: expected 10 tensors, found 9$'
    expect_no_orphans 3 ;;
  abort_alone)
    run 3 "${mpirun[@]}" -np 1 "$program" abort "$work"
    expect_lines 1 '^winnow: model\.gguf: expected 10 tensors, found 9$'
    expect_no_orphans 1 ;;
  abort_singleton)
    run 3 "$program" abort "$work"
    expect_lines 1 '^winnow: model\.gguf: expected 10 tensors, found 9$'
    expect_no_orphans 1 ;;
  kill)
    run any "${mpirun[@]}" -np 3 "$program" kill "$work"
    expect_no_orphans 3 ;;
  error)
    run 5 "${mpirun[@]}" -np 2 "$program" error "$work"
    grep -qE '^winnow: rank [01] \(host [^ )]+\): MPI_Allgather\(.*mpi_communicator\.cpp:[0-9]+ failed: .' \
      "$work/output" || fail "expected the failed call, its place and the rank"
    expect_no_orphans 2 ;;
  singleton)
    run 0 env -u SLURM_NTASKS -u SLURM_STEP_NUM_TASKS "$program" start
    expect_lines 1 '^0 of 1$' ;;
  bare_srun)
    run 2 env SLURM_NTASKS=4 SLURM_PROCID=2 "$program" start
    expect_lines 1 '^winnow: expected 4 MPI ranks .*srun --mpi=pmix.*mpirun'
    run 2 env SLURM_STEP_NUM_TASKS=3 "$program" start
    expect_lines 1 '^winnow: expected 3 MPI ranks'
    run 0 env SLURM_NTASKS=4 WINNOW_ALLOW_SINGLETON=1 "$program" start
    expect_lines 1 '^0 of 1$'
    run 0 env SLURM_NTASKS=4 "${mpirun[@]}" -np 1 "$program" start
    expect_lines 1 '^0 of 1$' ;;
  twice)
    run 1 env -u SLURM_NTASKS -u SLURM_STEP_NUM_TASKS "$program" twice
    expect_lines 1 'initialised once per process' ;;
  *)
    fail "no such case"
    exit 2 ;;
esac

if [[ "$failures" -ne 0 ]]; then
  echo "--- output ---"
  cat "$work/output"
fi
exit "$failures"
