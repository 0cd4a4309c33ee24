// A team of members, which meet at barriers and share loops.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "gate.h"

namespace {

struct team {
    explicit team(int size) : size(size) {}

    int size;
    // Number of threads, which its members share.
    int num_threads = 1;
    gate barrier;
    alignas(64) std::atomic<int> num_arrived{ 0 };
    std::atomic<unsigned> num_singles{ 0 };
    // For how long its threads have computed, in sum.
    std::atomic<int64_t> worked_ns{ 0 };
    // The loop whose iterations are being handed out.
    std::mutex loop_mutex;
    unsigned num_loops = 0;
    long next = 0, end = 0, step = 1;

    // Waits for the other threads; returns for how long it was awake.
    int64_t meet() {
        const uint32_t seen = barrier.count.load(std::memory_order_acquire);
        if (num_arrived.fetch_add(1, std::memory_order_acq_rel) == num_threads - 1) {
            num_arrived.store(0, std::memory_order_relaxed);
            barrier.open();
            return 0;
        }
        return barrier.wait(seen);
    }

    void start_loop(unsigned number, long first, long last, long by) {
        std::lock_guard<std::mutex> lock(loop_mutex);
        if (num_loops < number) {
            num_loops = number;
            next = first;
            end = last;
            step = by;
        }
    }

    // Hands out the next iterations of the loop.
    bool take(long chunk, long * first, long * last) {
        std::lock_guard<std::mutex> lock(loop_mutex);
        const long num_left = (end - next + step - (step > 0 ? 1 : -1)) / step;
        if (num_left <= 0) {
            return false;
        }
        *first = next;
        next += std::min(num_left, chunk) * step;
        *last = num_left <= chunk ? end : next;
        return true;
    }
};

// A member of a team.
struct member {
    team * of = nullptr;
    int index = 0;
    unsigned num_singles = 0;
    unsigned num_loops = 0;
    long chunk = 1;
};

// The member that this thread runs now.
thread_local member self;

}  // namespace
