// SLUICE_SIMD before a function that consists of a plain loop makes the compiler build it for SSE2, AVX2 and
// AVX-512; the loader picks one version. All versions have the same results: nothing is contracted
// (-ffp-contract=off) and loops keep their order. Sanitizers run before the loader could choose, so builds
// with them have the plain version alone.
//
// SLUICE_INDEPENDENT before a loop says that no iteration reads or writes what another one writes. The
// compiler then vectorises it without comparing the addresses of its arrays first; with many arrays it would
// give up.
//
// SLUICE_INLINE before a function makes it a part of every loop that calls it, which then vectorises.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SLUICE_SIMD __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define SLUICE_SIMD
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define SLUICE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define SLUICE_INDEPENDENT
#endif

#define SLUICE_INLINE inline __attribute__((always_inline))
