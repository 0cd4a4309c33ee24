// How crowded the machine is, by how much of a team's time its threads compute.

#pragma once

#include <algorithm>
#include <cstdint>

namespace {

// How many threads a team has: as many as get the most computed.
class crowding {
  public:
    int num_threads_of(int all) const { return std::max(all >> num_halvings, 1); }

    // Records a region: how long it took, and for how long its threads computed, in sum.
    void note(int num_threads, int64_t took_ns, int64_t worked_ns) {
        total_took_ns += took_ns;
        total_worked_ns += worked_ns;
        if (total_took_ns < (is_trial ? look_ns : evidence_ns)) {
            return;
        }
        // Threads that compute at a time, on average.
        const double rate = static_cast<double>(total_worked_ns) / static_cast<double>(total_took_ns);
        calm_ns += total_took_ns;
        total_took_ns = total_worked_ns = 0;
        if (is_trial) {
            end_trial(rate);
        } else if (calm_ns >= patience_ns) {
            // Half of the threads compute at most at half their number.
            const bool has_idle_half = num_threads > 1 && rate < 0.5 * num_threads;
            if (has_idle_half || num_halvings > 0) {
                start_trial(rate, num_halvings + (has_idle_half ? 1 : -1));
            }
        }
    }

    void leave_out(int halvings) { num_halvings = halvings; }

  private:
    // A look spans several time slices of the system, or one region.
    static constexpr int64_t look_ns = 50'000'000;
    // A trial is worth it if threads were idle for longer than a burst of another process: one that computed for 100 of
    // every 400 ms made prompts beside streams take twice as long while each look could begin a trial.
    static constexpr int64_t evidence_ns = 6 * look_ns;
    // Before another number of threads is tried: longer, the more often that failed. A trial takes one look.
    static constexpr int64_t least_patience_ns = 2 * look_ns, most_patience_ns = 64 * look_ns;

    int num_halvings = 0;
    int64_t total_took_ns = 0, total_worked_ns = 0;
    int64_t calm_ns = 0, patience_ns = least_patience_ns;
    bool is_trial = false;
    double rate_before = 0;
    int halvings_before = 0;

    void start_trial(double rate, int halvings) {
        is_trial = true;
        rate_before = rate;
        halvings_before = num_halvings;
        num_halvings = halvings;
    }

    void end_trial(double rate) {
        is_trial = false;
        calm_ns = 0;
        if (rate > rate_before) {
            patience_ns = least_patience_ns;
        } else {
            num_halvings = halvings_before;
            patience_ns = std::min(2 * patience_ns, most_patience_ns);
        }
    }
};

}  // namespace
