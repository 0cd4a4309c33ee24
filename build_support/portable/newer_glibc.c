// What libstdc++, ggml and Rust call of newer C libraries than the wheel is linked for, made of what the old one has.
// Hidden, so that each library has its own.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

// False: counts are always atomic.
HIDDEN char __libc_single_threaded;

HIDDEN uint32_t arc4random(void) {
    uint32_t value = 0;
    while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    }
    return value;
}

HIDDEN int getcpu(unsigned * cpu, unsigned * node) {
    return (int) syscall(SYS_getcpu, cpu, node, NULL);
}

// The old library knows the system's clock only.
HIDDEN int pthread_cond_clockwait(pthread_cond_t * condition, pthread_mutex_t * mutex, clockid_t clock,
                                  const struct timespec * until) {
    struct timespec now, now_there;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(clock, &now_there);
    struct timespec here = { now.tv_sec + until->tv_sec - now_there.tv_sec, now.tv_nsec + until->tv_nsec - now_there.tv_nsec };
    while (here.tv_nsec < 0) {
        here.tv_sec--;
        here.tv_nsec += 1000000000;
    }
    while (here.tv_nsec >= 1000000000) {
        here.tv_sec++;
        here.tv_nsec -= 1000000000;
    }
    return pthread_cond_timedwait(condition, mutex, &here);
}

#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

int __xstat(int version, const char * path, struct stat * out);
int __lxstat(int version, const char * path, struct stat * out);
int __fxstat(int version, int file, struct stat * out);
int __fxstatat(int version, int folder, const char * path, struct stat * out, int flags);

HIDDEN int stat(const char * path, struct stat * out) { return __xstat(STAT_VERSION, path, out); }
HIDDEN int lstat(const char * path, struct stat * out) { return __lxstat(STAT_VERSION, path, out); }
HIDDEN int fstat(int file, struct stat * out) { return __fxstat(STAT_VERSION, file, out); }
HIDDEN int fstatat(int folder, const char * path, struct stat * out, int flags) {
    return __fxstatat(STAT_VERSION, folder, path, out, flags);
}

// The same on 64-bit systems.
HIDDEN int stat64(const char * path, struct stat64 * out) { return stat(path, (struct stat *) out); }
HIDDEN int lstat64(const char * path, struct stat64 * out) { return lstat(path, (struct stat *) out); }
HIDDEN int fstat64(int file, struct stat64 * out) { return fstat(file, (struct stat *) out); }
HIDDEN int fstatat64(int folder, const char * path, struct stat64 * out, int flags) {
    return fstatat(folder, path, (struct stat *) out, flags);
}
