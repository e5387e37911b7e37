# Run by every build (cmake -P): writes the file OUTPUT from version.cpp.in, touching it only if something changed.
set(WINNOW_GIT_ID "unknown")
find_program(GIT_PROGRAM git)
if(GIT_PROGRAM AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_PROGRAM} describe --always --dirty --abbrev=12 --exclude *
                  WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE described RESULT_VARIABLE failed
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(WINNOW_GIT_ID ${described})
  endif()
endif()
configure_file(${SOURCE_DIR}/cmake/version.cpp.in ${OUTPUT} @ONLY)
