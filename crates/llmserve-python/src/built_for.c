// Whether this CPU has what the library was compiled for. This file is compiled for any CPU.

#include <stdbool.h>
#include <stdio.h>

extern void * PyExc_ImportError;
void PyErr_SetString(void * type, const char * message);

static const char * missing_feature(void) {
#define REQUIRE(feature)                    \
    if (!__builtin_cpu_supports(feature)) { \
        return feature;                     \
    }
#ifdef __x86_64__
    __builtin_cpu_init();
#endif
    REQUIREMENTS
    return NULL;
}

// If not, raises ImportError.
bool llmserve_is_built_for_this_cpu(void) {
    const char * feature = missing_feature();
    if (feature != NULL) {
        char message[300];
        snprintf(message, sizeof(message),
                 "llmserve was compiled for a CPU with `%s`, which this CPU lacks: install a wheel for all CPUs, or compile "
                 "it here with `make clean build` or `pip install --force-reinstall .`",
                 feature);
        PyErr_SetString(PyExc_ImportError, message);
    }
    return feature == NULL;
}
