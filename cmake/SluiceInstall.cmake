# PREFIX/bin has the programs, sluice_launch (launch.py), sluice_get_mnist and sluice_get_cifar10 among them; find_package(Sluice)
# gives Sluice::sluice, the whole public interface of include/sluice; PREFIX/share/sluice/examples builds against it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
set(tools_dir ${CMAKE_INSTALL_DATADIR}/sluice/tools)

get_property(libraries GLOBAL PROPERTY SLUICE_LIBRARIES)
install(TARGETS sluice ${libraries} EXPORT SluiceTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/sluice
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT SluiceTargets NAMESPACE Sluice:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/SluiceConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SluiceConfig.cmake ${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/SluiceDependencies.cmake
        DESTINATION ${package_dir})

# Python finds the package `launcher` beside the file that a link leads to.
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/launch.py ${PROJECT_SOURCE_DIR}/tools/get_mnist.py
                 ${PROJECT_SOURCE_DIR}/tools/get_cifar10.py
        DESTINATION ${tools_dir})
install(FILES ${PROJECT_SOURCE_DIR}/tools/download.py DESTINATION ${tools_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/launcher DESTINATION ${tools_dir} FILES_MATCHING PATTERN "*.py"
        PATTERN __pycache__ EXCLUDE)
file(RELATIVE_PATH to_tools /${CMAKE_INSTALL_BINDIR} /${tools_dir})
foreach(tool launch get_mnist get_cifar10)
  install(CODE "file(CREATE_LINK ${to_tools}/${tool}.py
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/sluice_${tool}\" SYMBOLIC)")
endforeach()

foreach(document LICENSE README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md)
  install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${CMAKE_INSTALL_DOCDIR})
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
