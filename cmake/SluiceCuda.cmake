# The GPUs' libraries: looked for, not demanded.
#
#   SLUICE_CUDA, SLUICE_NCCL   AUTO: use what is there; ON: an error says what is missing; OFF: do not look
#
# Sets SLUICE_HAS_CUDA and SLUICE_HAS_NCCL, and SLUICE_CUDA_FOUND and SLUICE_NCCL_FOUND, which say in words
# what was found. A folder has twins, cuda/ and no_cuda/, and its CMakeLists.txt picks one: no #ifdef anywhere.
# In the library nothing but those twins links CUDA, and they link its static runtime, which loads the driver on
# first use: one build runs on machines with and without GPUs.
include_guard()

set(SLUICE_CUDA_FLOOR 13)
set(SLUICE_CUDNN_FLOOR 9.8)  # descriptions of cards
set(SLUICE_NCCL_FLOOR 2.28)

# sluice_tristate(NAME what): a cache variable that is AUTO, ON or OFF.
function(sluice_tristate name what)
  set(${name} AUTO CACHE STRING "${what}: AUTO, ON or OFF")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT "${${name}}" MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${name} is '${${name}}'; use AUTO, ON or OFF")
  endif()
endfunction()

# sluice_nvidia_library(RESULT PREFIX header library floor): the version of a library, read from its header's
# macros PREFIX_MAJOR, PREFIX_MINOR and PREFIX_PATCH(LEVEL). RESULT_WHY says why it will not do, and is empty
# if it will.
function(sluice_nvidia_library result prefix header library floor)
  set(hints ${${prefix}_ROOT} $ENV{${prefix}_ROOT} ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_DIR})
  find_path(SLUICE_${prefix}_INCLUDE ${header} HINTS ${hints} PATH_SUFFIXES include)
  find_library(SLUICE_${prefix}_LIBRARY ${library} HINTS ${hints} PATH_SUFFIXES lib lib64)
  mark_as_advanced(SLUICE_${prefix}_INCLUDE SLUICE_${prefix}_LIBRARY)
  set(why)
  set(version)
  if(SLUICE_${prefix}_INCLUDE AND SLUICE_${prefix}_LIBRARY)
    file(STRINGS ${SLUICE_${prefix}_INCLUDE}/${header} macros
         REGEX "^#define ${prefix}_(MAJOR|MINOR|PATCH|PATCHLEVEL) +[0-9]+")
    list(TRANSFORM macros REPLACE ".* ([0-9]+).*" "\\1")
    list(JOIN macros . version)
    if(version VERSION_LESS floor)
      set(why "${version} in ${SLUICE_${prefix}_INCLUDE} is older than ${floor}")
    endif()
  else()
    set(why "no ${header} with lib${library}.so: beside the toolkit, or under -D${prefix}_ROOT=DIR")
  endif()
  set(${result} "${version}" PARENT_SCOPE)
  set(${result}_WHY "${why}" PARENT_SCOPE)
endfunction()

# sluice_nvidia_verdict(NAME missing found): sets SLUICE_HAS_NAME and SLUICE_NAME_FOUND; an error if it must
# be there.
function(sluice_nvidia_verdict name missing found)
  if(missing AND SLUICE_${name} STREQUAL "ON")
    list(JOIN missing "\n  " lines)
    message(FATAL_ERROR
      "SLUICE_${name} is ON, but this is missing:\n  ${lines}\n"
      "NVIDIA's repository for Debian 12 has the packages cuda-toolkit-13-0, cudnn9-cuda-13 and libnccl-dev. "
      "Or configure with -DSLUICE_${name}=AUTO, which builds without, or =OFF, which does not look.")
  endif()
  set(SLUICE_HAS_${name} OFF PARENT_SCOPE)
  if(SLUICE_${name} STREQUAL "OFF")
    set(found "not looked for (SLUICE_${name}=OFF)")
  elseif(missing)
    list(JOIN missing "; " lines)
    set(found "none (${lines}); none is needed for computing on CPUs")
  else()
    set(SLUICE_HAS_${name} ON PARENT_SCOPE)
  endif()
  set(SLUICE_${name}_FOUND "${found}" PARENT_SCOPE)
endfunction()

sluice_tristate(SLUICE_CUDA "The CUDA toolkit and cuDNN: to compute on GPUs")
sluice_tristate(SLUICE_NCCL "NCCL: to sum arrays of several GPUs (the store type nccl)")

set(missing)
if(NOT SLUICE_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    list(APPEND missing "CUDA toolkit: no nvcc on the PATH or under -DCUDAToolkit_ROOT=DIR")
  elseif(CUDAToolkit_VERSION VERSION_LESS SLUICE_CUDA_FLOOR)
    list(APPEND missing "CUDA toolkit: ${CUDAToolkit_VERSION} is older than ${SLUICE_CUDA_FLOOR}")
  endif()
  sluice_nvidia_library(cudnn CUDNN cudnn_version.h cudnn ${SLUICE_CUDNN_FLOOR})
  if(cudnn_WHY)
    list(APPEND missing "cuDNN: ${cudnn_WHY}")
  endif()
endif()
sluice_nvidia_verdict(CUDA "${missing}"
  "toolkit ${CUDAToolkit_VERSION}, cuDNN ${cudnn}")

set(missing)
if(NOT SLUICE_NCCL STREQUAL "OFF")
  if(NOT SLUICE_HAS_CUDA)
    list(APPEND missing "NCCL works on GPUs, and this build has no CUDA (SLUICE_CUDA=${SLUICE_CUDA})")
  endif()
  sluice_nvidia_library(nccl NCCL nccl.h nccl ${SLUICE_NCCL_FLOOR})
  if(nccl_WHY)
    list(APPEND missing "NCCL: ${nccl_WHY}")
  endif()
endif()
sluice_nvidia_verdict(NCCL "${missing}" "${nccl}")
