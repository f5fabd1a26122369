# A toolkit of the version that the test says.
set(CUDAToolkit_VERSION ${FAKE_TOOLKIT})
set(CUDAToolkit_FOUND ON)
