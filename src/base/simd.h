// SLUICE_SIMD before a function with a plain loop: the compiler builds it for SSE2, AVX2 and AVX-512 and the
// loader picks one. Results are the same on each: nothing is contracted (-ffp-contract=off) and loops keep
// their order. Sanitizers run before the loader's choice is possible, so they get the plain build.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SLUICE_SIMD __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define SLUICE_SIMD
#endif
