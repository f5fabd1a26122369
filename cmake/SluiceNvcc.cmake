# nvcc compiles kernels (*.cu) where SluiceCuda.cmake has found CUDA, without sluice_flags, whose options it does not
# know. CMAKE_CUDA_ARCHITECTURES says for which GPUs. By default it is 80: instructions for sm_80, and PTX, of which the
# driver makes those of a later GPU when a kernel is first used there, and keeps them. No kernel needs more.
# Sanitizer builds compile kernels as the release build does, so that ccache has them; what a sanitizer looks at are
# the same kernels compiled for the host (tests/gpu/).
include_guard()

# sluice_cuda_kernels(TARGET): what every target with kernels is compiled with. Without fused multiply-add a card
# computes the same bits as the host.
function(sluice_cuda_kernels target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${SLUICE_CUDNN_INCLUDE})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr -Werror=all-warnings -Xcompiler=-Wall,-Wextra>)
endfunction()

if(SLUICE_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # who links CUDA says so
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  if(SLUICE_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${SLUICE_CCACHE})
  endif()
endif()
