# Included after each `project()` of llama.cpp (`CMAKE_PROJECT_INCLUDE`) where a wheel is built.

list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
# Names of our own: another package in the process may have loaded its llama.cpp.
set(CMAKE_SHARED_LIBRARY_PREFIX libllmserve-)
# No links to versions: a wheel has none, and the sys crate's build script fails on those of an earlier run.
set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)
set(LLAMA_BUILD_COMMON OFF)
# `variants.cmake` has the ones that are worth their time.
set(GGML_CPU_ALL_VARIANTS OFF)
set(GGML_CPU OFF)

if (GGML_CUDA)
    # Where NVIDIA's packages on PyPI put what the module needs, from `llmserve/_native`.
    list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../../nvidia/cuda_runtime/lib" "$ORIGIN/../../nvidia/cublas/lib")
endif ()
