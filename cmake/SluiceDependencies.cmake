# What Sluice is made of; installs by name from Debian 12 with tools/install_deps.sh. Read by this build, and
# by programs that find the installed package: whoever links a static library links what it needs.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Protobuf 3.21 REQUIRED)
find_package(gflags 2.2 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG 1.6 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(dnnl 2.6 REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq>=4.3.4)
pkg_check_modules(GLOG REQUIRED IMPORTED_TARGET libglog>=0.6)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg>=2.1)
