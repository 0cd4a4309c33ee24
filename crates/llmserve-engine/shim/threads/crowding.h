// How crowded the machine is, by how long the threads of a team wait for each other.

#pragma once

#include <algorithm>
#include <cstdint>

namespace {

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

}  // namespace
