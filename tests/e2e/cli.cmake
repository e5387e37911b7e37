# The winnow command as users run it: output, and what it says when something is wrong.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(part cli cli_budget cli_chat cli_directory cli_errors cli_memory cli_eval cli_eval_groups cli_eval_tasks cli_report cli_snapshot cli_tokenize)
  add_test(NAME e2e.${part}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${part}_test.py $<TARGET_FILE:winnow>
                   $<TARGET_FILE:make_tiny_model> ${MPIEXEC_EXECUTABLE} ${WINNOW_MPIRUN_FLAGS})
  set_tests_properties(e2e.${part} PROPERTIES LABELS e2e TIMEOUT 600 PROCESSORS 2)
endforeach()
