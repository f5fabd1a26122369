# What this build is made of, in one place. Shown on standard error when it is new: `make` hides the rest.
set(compiled_with)
if(SLUICE_CCACHE)
  string(APPEND compiled_with ", through ccache")
endif()
if(SLUICE_SANITIZE)
  string(APPEND compiled_with ", sanitizer ${SLUICE_SANITIZE}")
endif()
set(summary "Sluice ${PROJECT_VERSION} in ${CMAKE_BINARY_DIR}
   build  ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}${compiled_with}
   from   libzmq ${ZMQ_VERSION}, protobuf ${Protobuf_VERSION}, oneDNN ${dnnl_VERSION},
          glog ${GLOG_VERSION}, gflags ${gflags_VERSION}, zlib ${ZLIB_VERSION_STRING},
          libpng ${PNG_VERSION_STRING}, libjpeg-turbo ${TURBOJPEG_VERSION}
   CUDA   ${SLUICE_CUDA_FOUND}
   NCCL   ${SLUICE_NCCL_FOUND}")
string(SHA256 digest "${summary}")
if(digest STREQUAL "${SLUICE_SUMMARY_SHOWN}")
  message(STATUS "${summary}")
else()
  message(NOTICE "${summary}")
  set(SLUICE_SUMMARY_SHOWN ${digest} CACHE INTERNAL "Of the summary that was shown last")
endif()
