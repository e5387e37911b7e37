# cmake --install BUILD --prefix ANYWHERE. Nothing installed holds an absolute path: the prefix may be moved later.
# libexec/winnow keeps the scripts beside the tables that they read.
include(GNUInstallDirs)
if(TARGET winnow)
  install(TARGETS winnow RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(PROGRAMS launch/fetch_model bench/plot DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/winnow)
install(FILES launch/default_model.txt DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/winnow)
install(FILES launch/quickstart_prompt.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/winnow)
install(FILES LICENSE NOTICE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/winnow)
install(FILES README.md README.ko.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/winnow OPTIONAL)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/winnow/docs OPTIONAL)
