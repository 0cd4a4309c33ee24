# What ggml finds as CUDA's driver: functions that look for it at run time.

if (NOT TARGET CUDA::cuda_driver)
    # Before the package is asked for, which would take the library of the machine.
    add_library(CUDA::cuda_driver INTERFACE IMPORTED)
    find_package(CUDAToolkit REQUIRED)
    add_library(llmserve-cuda-driver STATIC "${CMAKE_CURRENT_LIST_DIR}/../cuda_driver.c")
    set_target_properties(llmserve-cuda-driver PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_include_directories(llmserve-cuda-driver SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(CUDA::cuda_driver INTERFACE llmserve-cuda-driver ${CMAKE_DL_LIBS})
endif ()
