# Sourced by launch/quickstart and tests/run: which flags mpirun (Open MPI 4) needs on this one machine.
# shellcheck shell=bash

# Slots that mpirun counts by itself: physical cores, not hardware threads, of the CPUs this process may use.
winnow_mpirun_slots() {
  local allowed cores
  allowed="$(nproc)"
  cores="$(lscpu --parse=CORE,SOCKET 2>/dev/null | grep -v '^#' | sort -u | wc -l)" || cores=0
  if [[ "$cores" -ge 1 && "$cores" -lt "$allowed" ]]; then echo "$cores"; else echo "$allowed"; fi
}

# winnow_mpirun_flags NP: fills the array MPIRUN_FLAGS.
winnow_mpirun_flags() {
  local np="$1"
  # Unbound: a rank may have several threads, and the default binding would put them all on one core.
  MPIRUN_FLAGS=(--bind-to none)
  [[ "$(id -u)" -ne 0 ]] || MPIRUN_FLAGS+=(--allow-run-as-root)
  # More ranks than slots: --oversubscribe, which also makes waiting ranks yield (without it a step takes 10 ms).
  [[ "$np" -le "$(winnow_mpirun_slots)" ]] || MPIRUN_FLAGS+=(--oversubscribe)
  # Containers often forbid reading another process's memory, and then every large message prints an error.
  if [[ -e /.dockerenv || -e /run/.containerenv ]]; then
    MPIRUN_FLAGS+=(--mca btl_vader_single_copy_mechanism none)
  fi
}

# For programs that start mpirun themselves (ctest): the same permission through the environment.
winnow_mpirun_environment() {
  if [[ "$(id -u)" -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  if [[ -e /.dockerenv || -e /run/.containerenv ]]; then
    export OMPI_MCA_btl_vader_single_copy_mechanism=none
  fi
}
