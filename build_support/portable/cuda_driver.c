// The calls of CUDA's driver that ggml makes, looked up when they are made: the module then loads on machines without
// the driver, where CUDA's runtime reports that there is no device.

#include <cuda.h>
#include <dlfcn.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define NAME_OF(function) #function

static void * find(const char * name) {
    static void * driver;
    if (!driver) {
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    }
    return driver ? dlsym(driver, name) : NULL;
}

// `NAME_OF` sees what a name with versions stands for in `cuda.h`.
#define FORWARD(function, parameters, arguments)                                  \
    HIDDEN CUresult CUDAAPI function parameters {                                 \
        CUresult (*found) parameters = (CUresult (*) parameters) find(NAME_OF(function)); \
        return found ? found arguments : CUDA_ERROR_STUB_LIBRARY;                 \
    }

FORWARD(cuDeviceGet, (CUdevice * device, int index), (device, index))
FORWARD(cuDeviceGetAttribute, (int * value, CUdevice_attribute which, CUdevice device), (value, which, device))
FORWARD(cuGetErrorString, (CUresult error, const char ** text), (error, text))
FORWARD(cuMemAddressFree, (CUdeviceptr start, size_t size), (start, size))
FORWARD(cuMemAddressReserve,
        (CUdeviceptr * start, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags),
        (start, size, alignment, wanted, flags))
FORWARD(cuMemCreate,
        (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp * kind, unsigned long long flags),
        (handle, size, kind, flags))
FORWARD(cuMemGetAllocationGranularity,
        (size_t * size, const CUmemAllocationProp * kind, CUmemAllocationGranularity_flags which), (size, kind, which))
FORWARD(cuMemMap,
        (CUdeviceptr start, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),
        (start, size, offset, handle, flags))
FORWARD(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))
FORWARD(cuMemSetAccess, (CUdeviceptr start, size_t size, const CUmemAccessDesc * access, size_t count),
        (start, size, access, count))
FORWARD(cuMemUnmap, (CUdeviceptr start, size_t size), (start, size))
