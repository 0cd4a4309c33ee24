# What ggml finds as OpenMP: the code that GCC makes of it, and the engine's own runtime within each library that has
# such code.

set(folder "${CMAKE_CURRENT_LIST_DIR}/../../../crates/llmserve-engine/shim")
add_library(llmserve-threads STATIC "${folder}/llmserve_threads.cpp")
target_compile_features(llmserve-threads PRIVATE cxx_std_17)
set_target_properties(llmserve-threads PROPERTIES POSITION_INDEPENDENT_CODE ON)
find_package(Threads REQUIRED)
target_link_libraries(llmserve-threads PUBLIC Threads::Threads)

foreach (language C CXX)
    add_library(OpenMP::OpenMP_${language} INTERFACE IMPORTED)
    target_compile_options(OpenMP::OpenMP_${language} INTERFACE $<$<COMPILE_LANGUAGE:${language}>:-fopenmp>)
    target_link_libraries(OpenMP::OpenMP_${language} INTERFACE llmserve-threads)
endforeach ()
set(OpenMP_FOUND TRUE)

# The one place from which ggml's folder of sources can be added to: at its end, its functions are known. Only `EVAL`
# puts the path of this folder in before that.
cmake_language(EVAL CODE "cmake_language(DEFER CALL include [[${CMAKE_CURRENT_LIST_DIR}/variants.cmake]])")
