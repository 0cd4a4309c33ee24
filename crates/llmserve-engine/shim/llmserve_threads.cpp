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

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace {

// Pauses before the clock is looked at: most waits end within them.
constexpr int first_pauses = 64;
constexpr int pauses_a_look = 8;
constexpr int64_t spin_ns = 50'000;

int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1'000'000'000) + time.tv_nsec;
}

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

    // Waits until the count differs from `seen`; returns for how long, about 0 if hardly at all.
    int64_t wait(uint32_t seen) {
        if (pause_until_open(seen, first_pauses)) {
            return 0;
        }
        const int64_t start_ns = now_ns();
        for (int64_t waited_ns = 0; waited_ns < spin_ns;) {
            const bool is_open = pause_until_open(seen, pauses_a_look);
            waited_ns = now_ns() - start_ns;
            if (is_open) {
                return waited_ns;
            }
        }
        sleepers.fetch_add(1);
        while (count.load() == seen) {
            syscall(SYS_futex, &count, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
        }
        sleepers.fetch_sub(1);
        return now_ns() - start_ns;
    }
};

struct team {
    explicit team(int size) : size(size) {}

    int size;
    // Number of threads, which its members share.
    int num_threads = 1;
    gate barrier;
    alignas(64) std::atomic<int> num_arrived{ 0 };
    std::atomic<unsigned> num_singles{ 0 };
    // How long its threads have waited for each other.
    std::atomic<int64_t> waited_ns{ 0 };
    // The loop whose iterations are being handed out.
    std::mutex loop_mutex;
    unsigned num_loops = 0;
    long next = 0, end = 0, step = 1;

    // Waits for the other threads; returns for how long.
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

// The same stack size as a thread's; only what is used takes memory.
constexpr size_t stack_bytes = 8 << 20;
constexpr size_t guard_bytes = 64 << 10;

// A member that shares its thread with others.
struct fiber {
    ucontext_t context;
    member state;
    void * stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

    fiber() {
        if (stack == MAP_FAILED || mprotect(stack, guard_bytes, PROT_NONE) != 0) {
            throw std::bad_alloc();
        }
    }

    fiber(const fiber &) = delete;

    ~fiber() { munmap(stack, stack_bytes); }

    void start(member as, void (*function)()) {
        state = as;
        getcontext(&context);
        context.uc_stack.ss_sp = stack;
        context.uc_stack.ss_size = stack_bytes;
        context.uc_link = nullptr;
        makecontext(&context, function, 0);
    }
};

// The members that a thread runs, each up to the barrier, in turn. The first has the thread's own stack.
struct turns {
    ucontext_t own_context;
    member own_state;
    std::vector<std::unique_ptr<fiber>> others;
    int count = 1;
    int current = 0;
    void (*function)(void *) = nullptr;
    void * data = nullptr;
    int64_t waited_ns = 0;

    ucontext_t & context_of(int turn) { return turn == 0 ? own_context : others[turn - 1]->context; }
    member & state_of(int turn) { return turn == 0 ? own_state : others[turn - 1]->state; }

    void give_turn() {
        const int from = current;
        current = (current + 1) % count;
        state_of(from) = self;
        self = state_of(current);
        swapcontext(&context_of(from), &context_of(current));
    }

    void barrier(team & of) {
        if (current == count - 1) {
            waited_ns += of.meet();
        }
        if (count > 1) {
            give_turn();
        }
    }

    // Runs the members first, first + by, first + 2 * by, ... of a team.
    void run(team & of, int first, int by, void (*function)(void *), void * data);
};

thread_local turns own_turns;

void run_other() {
    own_turns.function(own_turns.data);
    // Never returns: the next region starts the fiber again.
    own_turns.give_turn();
}

void turns::run(team & of, int first, int by, void (*function)(void *), void * data) {
    this->function = function;
    this->data = data;
    count = (of.size - first + by - 1) / by;
    current = 0;
    waited_ns = 0;
    while (static_cast<int>(others.size()) < count - 1) {
        others.push_back(std::make_unique<fiber>());
    }
    for (int turn = 1; turn < count; turn++) {
        others[turn - 1]->start({ &of, first + turn * by }, run_other);
    }
    self = { &of, first };
    function(data);
    if (count > 1) {
        give_turn();
    }
    of.waited_ns.fetch_add(waited_ns, std::memory_order_relaxed);
    of.meet();
    self = {};
}

// How many threads a team has, by how long they had to wait.
class crowding {
  public:
    int num_threads_of(int all) const { return std::max(all >> num_halvings, 1); }

    // Records how a region went.
    void note(int num_threads, int64_t took_ns, int64_t waited_ns) {
        // If one thread works and the others wait for it, this would be `took_ns` for each of them.
        const bool is_crowded = waited_ns > least_ns && waited_ns > (num_threads - 1) * took_ns * 2 / 5;
        if (is_crowded) {
            patience = is_trial ? std::min(2 * patience, most_patience) : patience;
            num_halvings++;
            num_calm = 0;
        } else if (++num_calm >= patience) {
            num_calm = 0;
            if (num_halvings > 0) {
                num_halvings--;
            } else {
                patience = least_patience;
            }
        }
        is_trial = !is_crowded && num_calm == 0;
    }

    void leave_out(int halvings) { num_halvings = halvings; }

  private:
    // Regions before more threads are tried again: more, the more often that failed.
    static constexpr int least_patience = 2, most_patience = 64;
    // A shorter wait is noise, or the end of a short region.
    static constexpr int64_t least_ns = 2'000'000;

    int num_halvings = 0;
    int num_calm = 0;
    int patience = least_patience;
    bool is_trial = false;
};

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
        waited_ns.store(0, std::memory_order_relaxed);
        num_loops = 0;
        this->function = function;
        this->data = data;
        const int64_t start_ns = now_ns();
        for (int index = 1; index < num_threads; index++) {
            workers[index - 1]->work.open();
        }
        own_turns.run(*this, 0, num_threads, function, data);
        crowd.note(num_threads, now_ns() - start_ns, waited_ns.load(std::memory_order_relaxed));
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

// For tests: how many of `all` threads each of `count` regions has, that takes `took_ns` and in which its threads wait
// for `waited_share[number of threads]` of that time each.
HIDDEN void llmserve_crowd(int all, int64_t took_ns, const double * waited_share, int count, int * num_threads) {
    crowding crowd;
    for (int region = 0; region < count; region++) {
        const int now = num_threads[region] = crowd.num_threads_of(all);
        crowd.note(now, took_ns, static_cast<int64_t>(waited_share[now] * static_cast<double>(took_ns) * (now - 1)));
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
