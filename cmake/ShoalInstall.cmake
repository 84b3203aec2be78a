# What is installed: the headers, libshoal, the shoal command and a package for find_package(shoal).
# The public headers need the standard library alone, so the package names no other packages.
include(CMakePackageConfigHelpers)
set(SHOAL_INSTALL_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/shoal)
if(SKBUILD)
  # In a wheel the command and its library lie inside the Python package (python/CMakeLists.txt).
  return()
endif()

file(RELATIVE_PATH lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(shoal PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS shoal EXPORT shoalTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/shoal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.hpp")
install(EXPORT shoalTargets NAMESPACE shoal:: DESTINATION ${SHOAL_INSTALL_CMAKEDIR})
if(TARGET shoal_cli)
  set_target_properties(shoal_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS shoal_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/shoalConfig.cmake.in
  ${PROJECT_BINARY_DIR}/shoalConfig.cmake INSTALL_DESTINATION ${SHOAL_INSTALL_CMAKEDIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/shoalConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/shoalConfig.cmake ${PROJECT_BINARY_DIR}/shoalConfigVersion.cmake
        DESTINATION ${SHOAL_INSTALL_CMAKEDIR})

# The build tree serves as a package too: -Dshoal_DIR=build/cpu.
export(EXPORT shoalTargets NAMESPACE shoal:: FILE ${PROJECT_BINARY_DIR}/shoalTargets.cmake)
