# What this build is made of, in one place.
if(SLUICE_CCACHE)
  set(compiled_with ", through ccache")
endif()
if(SLUICE_SANITIZE)
  string(APPEND compiled_with ", sanitizer ${SLUICE_SANITIZE}")
endif()
message(STATUS "Sluice ${PROJECT_VERSION}
     build   ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}${compiled_with}
     from    libzmq ${ZMQ_VERSION}, protobuf ${Protobuf_VERSION}, oneDNN ${dnnl_VERSION},
             glog ${GLOG_VERSION}, gflags ${gflags_VERSION}, zlib ${ZLIB_VERSION_STRING}
     CUDA    ${SLUICE_CUDA_FOUND}
     NCCL    ${SLUICE_NCCL_FOUND}")
