# The CPUs that the wheel has code for; ggml loads the best at run time. These are ggml's names, with fewer of them than
# `GGML_CPU_ALL_VARIANTS` has: each takes one to two minutes of a core.

include(ggml-cpu/CMakeLists.txt)

if (GGML_SYSTEM_ARCH STREQUAL "x86")
    ggml_add_cpu_backend_variant(x64)
    ggml_add_cpu_backend_variant(sandybridge SSE42 AVX)
    ggml_add_cpu_backend_variant(haswell     SSE42 AVX F16C FMA AVX2 BMI2)
    ggml_add_cpu_backend_variant(skylakex    SSE42 AVX F16C FMA AVX2 BMI2 AVX512)
    ggml_add_cpu_backend_variant(icelake     SSE42 AVX F16C FMA AVX2 BMI2 AVX512 AVX512_VBMI AVX512_VNNI)
    ggml_add_cpu_backend_variant(zen4        SSE42 AVX F16C FMA AVX2 BMI2 AVX512 AVX512_VBMI AVX512_VNNI AVX512_BF16)
elseif (GGML_SYSTEM_ARCH STREQUAL "ARM")
    ggml_add_cpu_backend_variant(armv8.0_1)
    ggml_add_cpu_backend_variant(armv8.2_2 DOTPROD FP16_VECTOR_ARITHMETIC)
    ggml_add_cpu_backend_variant(armv8.6_1 DOTPROD FP16_VECTOR_ARITHMETIC SVE MATMUL_INT8)
else ()
    message(FATAL_ERROR "no wheels are built for ${GGML_SYSTEM_ARCH}")
endif ()
