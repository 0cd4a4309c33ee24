// A counter that threads wait on, awake for about as long as going to sleep and being woken would take.

#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>
#include <thread>

namespace {

// Pauses before the clock is looked at: most waits end within them.
constexpr int first_pauses = 64;
constexpr int pauses_a_look = 8;
constexpr int64_t spin_ns = 50'000;

int64_t read_ns(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * INT64_C(1'000'000'000) + time.tv_nsec;
}

int64_t now_ns() { return read_ns(CLOCK_MONOTONIC); }

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    std::this_thread::yield();
#endif
}

// A counter that threads wait on.
struct alignas(64) gate {
    std::atomic<uint32_t> count{ 0 };
    std::atomic<uint32_t> sleepers{ 0 };

    void open() {
        // Both sequentially consistent: either the sleeper is seen here or it sees the new count.
        count.fetch_add(1);
        if (sleepers.load() != 0) {
            syscall(SYS_futex, &count, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
        }
    }

    bool is_open(uint32_t seen) const { return count.load(std::memory_order_acquire) != seen; }

    // False if it stayed closed.
    bool pause_until_open(uint32_t seen, int pauses) const {
        for (int i = 0; i < pauses; i++) {
            if (is_open(seen)) {
                return true;
            }
            pause();
        }
        return is_open(seen);
    }

    // Waits until the count differs from `seen`; returns for how long it was awake, about 0 if hardly at all.
    int64_t wait(uint32_t seen) {
        if (pause_until_open(seen, first_pauses)) {
            return 0;
        }
        const int64_t start_ns = now_ns();
        for (int64_t waited_ns = 0; waited_ns < spin_ns;) {
            const bool is_open = pause_until_open(seen, pauses_a_look);
            waited_ns = now_ns() - start_ns;
            if (is_open) {
                // Longer only if the thread was not running.
                return std::min(waited_ns, spin_ns);
            }
        }
        sleepers.fetch_add(1);
        while (count.load() == seen) {
            syscall(SYS_futex, &count, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        }
        sleepers.fetch_sub(1);
        return spin_ns;
    }
};

}  // namespace
