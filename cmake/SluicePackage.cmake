# `make deb`: the Debian package, which holds what cmake --install gives. Its libraries are static, so that a program that
# builds against it needs the development packages below; those of the shared libraries are found by dpkg-shlibdeps.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_CONTACT "The Sluice authors <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed training on parameter servers")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3, libzmq3-dev, libprotobuf-dev, protobuf-compiler, libgflags-dev, \
libgoogle-glog-dev, libdnnl-dev, ocl-icd-opencl-dev, zlib1g-dev, libpng-dev, libturbojpeg0-dev, nlohmann-json3-dev, \
robin-map-dev, pkg-config")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "build-essential, cmake")
include(CPack)
