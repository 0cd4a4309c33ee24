// Members of a team that share a thread, each up to the next barrier.

#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "team.h"

namespace {

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
    int64_t spun_ns = 0;

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
            spun_ns += of.meet();
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
    spun_ns = 0;
    while (static_cast<int>(others.size()) < count - 1) {
        others.push_back(std::make_unique<fiber>());
    }
    for (int turn = 1; turn < count; turn++) {
        others[turn - 1]->start({ &of, first + turn * by }, run_other);
    }
    self = { &of, first };
    const int64_t start_ns = read_ns(CLOCK_THREAD_CPUTIME_ID);
    function(data);
    if (count > 1) {
        give_turn();
    }
    const int64_t worked_ns = read_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns - spun_ns;
    of.worked_ns.fetch_add(std::max<int64_t>(worked_ns, 0), std::memory_order_relaxed);
    of.meet();
    self = {};
}

}  // namespace
