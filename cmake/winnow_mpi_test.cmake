# winnow_mpi_test(NAME PROGRAM NP count... [ARGS argument...])
# Runs the target PROGRAM under mpirun, once per rank count, as ctest NAME.npN with the label mpi. The program prints a
# line per failure and ends with a non-zero exit code. Left out of sanitizer builds: Open MPI itself is not clean there.
#
# --bind-to none, because two ranks bound to one core each would pin all their threads; a killed rank ends the job at
# once instead of after 5 s. The environment lets root run it (containers, CI).
set(WINNOW_MPIRUN_FLAGS --oversubscribe --bind-to none --mca odls_base_sigkill_timeout 0)
set(WINNOW_MPIRUN_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)

function(winnow_mpi_test name program)
  cmake_parse_arguments(ARG "" "" "NP;ARGS" ${ARGN})
  if(WINNOW_TEST_LABEL)
    return()
  endif()
  foreach(np ${ARG_NP})
    add_test(NAME ${name}.np${np}
             COMMAND ${MPIEXEC_EXECUTABLE} ${WINNOW_MPIRUN_FLAGS} -np ${np} $<TARGET_FILE:${program}> ${ARG_ARGS})
    set_tests_properties(${name}.np${np} PROPERTIES LABELS mpi TIMEOUT 120 PROCESSORS ${np}
                         ENVIRONMENT "${WINNOW_MPIRUN_ENVIRONMENT}")
  endforeach()
endfunction()
