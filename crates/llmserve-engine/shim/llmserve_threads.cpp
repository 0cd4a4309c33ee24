// The part of OpenMP's runtime that llama.cpp uses, by GCC's ABI: teams of threads whose barriers follow how
// crowded the machine is.
//
// libgomp's barriers spin for milliseconds. Where other processes want the cores, the thread that is waited for
// often is not running, and spinning takes the time slices that it needs: a token then takes 20 to 60 times as long.
// A barrier that sleeps at once, on the other hand, costs most of the speed on an idle machine. So a wait spins about
// as long as going to sleep and being woken would take; and where a team mostly waits, half of its threads are left
// out for a while, since a thread alone loses nothing to the others. The team stays as large: its members then share
// the threads and take turns at barriers. So no result depends on how crowded the machine is, as it otherwise would
// (ggml's flash attention adds up one part for each member).
//
// All symbols are hidden: whoever else in the process uses OpenMP keeps libgomp.

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "threads/crowding.h"
#include "threads/gate.h"
#include "threads/team.h"
#include "threads/turns.h"

namespace {

// A team whose other threads wait for work from the thread that owns it.
struct pool : team {
    struct worker {
        gate work;
        std::thread thread;
    };

    const int wanted;
    // As many threads as the system gives.
    std::vector<std::unique_ptr<worker>> workers;
    crowding crowd;
    void (*function)(void *) = nullptr;
    void * data = nullptr;
    bool is_over = false;

    explicit pool(int wanted) : team(1), wanted(wanted) {
        try {
            for (int index = 1; index < wanted; index++) {
                auto added = std::make_unique<worker>();
                added->thread = std::thread([this, index, &work = added->work] { serve(index, work); });
                workers.push_back(std::move(added));
            }
        } catch (const std::system_error &) {
        }
    }

    ~pool() {
        is_over = true;
        for (auto & worker : workers) {
            worker->work.open();
            worker->thread.join();
        }
    }

    void serve(int index, gate & work) {
        for (uint32_t seen = 0;; seen++) {
            work.wait(seen);
            if (is_over) {
                return;
            }
            own_turns.run(*this, index, num_threads, function, data);
        }
    }

    void run(void (*function)(void *), void * data) {
        size = static_cast<int>(workers.size()) + 1;
        num_threads = crowd.num_threads_of(size);
        num_singles.store(0, std::memory_order_relaxed);
        worked_ns.store(0, std::memory_order_relaxed);
        num_loops = 0;
        this->function = function;
        this->data = data;
        const int64_t start_ns = now_ns();
        for (int index = 1; index < num_threads; index++) {
            workers[index - 1]->work.open();
        }
        own_turns.run(*this, 0, num_threads, function, data);
        crowd.note(num_threads, now_ns() - start_ns, worked_ns.load(std::memory_order_relaxed));
    }
};

thread_local std::unique_ptr<pool> own_pool;
std::mutex atomic_mutex;

int num_cores() {
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {

HIDDEN void GOMP_parallel(void (*function)(void *), void * data, unsigned num_threads, unsigned /* flags */) {
    const int size = num_threads == 0 ? num_cores() : static_cast<int>(num_threads);
    if (size == 1 || self.of != nullptr) {
        // A thread outside any team counts as a team of one.
        const member before = self;
        self = {};
        function(data);
        self = before;
        return;
    }
    if (own_pool == nullptr || own_pool->wanted != size) {
        own_pool.reset();
        own_pool = std::make_unique<pool>(size);
    }
    own_pool->run(function, data);
}

// For tests: has the calling thread's team work as on a crowded machine.
HIDDEN void llmserve_leave_out_threads(int halvings) { own_pool->crowd.leave_out(halvings); }

// For tests: how many of `all` threads each of `count` regions has, that takes `took_ns` and in which
// `rate[number of threads]` threads compute at a time. Each region has its rates, for 0 to `all` threads.
HIDDEN void llmserve_crowd(int all, int64_t took_ns, const double * rate, int count, int * num_threads) {
    crowding crowd;
    for (int region = 0; region < count; region++) {
        const int now = num_threads[region] = crowd.num_threads_of(all);
        crowd.note(now, took_ns, static_cast<int64_t>(rate[region * (all + 1) + now] * static_cast<double>(took_ns)));
    }
}

HIDDEN void GOMP_barrier() {
    if (self.of != nullptr) {
        own_turns.barrier(*self.of);
    }
}

// True for the first member that comes to a `single` block.
HIDDEN bool GOMP_single_start() {
    unsigned expected = self.num_singles++;
    return self.of == nullptr || self.of->num_singles.compare_exchange_strong(expected, expected + 1);
}

HIDDEN bool GOMP_loop_nonmonotonic_dynamic_next(long * first, long * last) {
    return self.of != nullptr && self.of->take(self.chunk, first, last);
}

HIDDEN bool GOMP_loop_nonmonotonic_dynamic_start(long start, long end, long step, long chunk, long * first, long * last) {
    if (self.of == nullptr) {
        *first = start;
        *last = end;
        return step > 0 ? start < end : start > end;
    }
    self.chunk = chunk;
    self.of->start_loop(++self.num_loops, start, end, step);
    return GOMP_loop_nonmonotonic_dynamic_next(first, last);
}

HIDDEN void GOMP_loop_end() { GOMP_barrier(); }

HIDDEN void GOMP_atomic_start() { atomic_mutex.lock(); }

HIDDEN void GOMP_atomic_end() { atomic_mutex.unlock(); }

HIDDEN int omp_get_num_threads() { return self.of == nullptr ? 1 : self.of->size; }

HIDDEN int omp_get_thread_num() { return self.index; }

}  // extern "C"
