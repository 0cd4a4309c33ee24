//! Tests of the runtime for llama.cpp's OpenMP code (`shim/llmserve_threads.cpp`), by the calls that GCC makes for it.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::lock;

unsafe extern "C" {
    fn GOMP_parallel(
        function: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
        num_threads: c_uint,
        flags: c_uint,
    );
    fn GOMP_barrier();
    fn GOMP_single_start() -> bool;
    fn GOMP_loop_nonmonotonic_dynamic_start(
        start: c_long,
        end: c_long,
        step: c_long,
        chunk: c_long,
        first: *mut c_long,
        last: *mut c_long,
    ) -> bool;
    fn GOMP_loop_nonmonotonic_dynamic_next(first: *mut c_long, last: *mut c_long) -> bool;
    fn GOMP_loop_end();
    fn omp_get_num_threads() -> c_int;
    fn omp_get_thread_num() -> c_int;
    fn llmserve_leave_out_threads(halvings: c_int);
    fn llmserve_crowd(all: c_int, took_ns: i64, rate: *const f64, count: c_int, num_threads: *mut c_int);
}

fn parallel<T: Sync>(num_threads: u32, function: unsafe extern "C" fn(*mut c_void), data: &T) {
    // SAFETY: the data outlives the call, and the functions below only share it.
    unsafe { GOMP_parallel(function, std::ptr::from_ref(data).cast_mut().cast(), num_threads, 0) };
}

#[derive(Default)]
struct Seen {
    members: Mutex<Vec<(i32, i32)>>,
    arrived: AtomicUsize,
    early: AtomicUsize,
    singles: AtomicUsize,
    iterations: Mutex<Vec<i64>>,
}

unsafe extern "C" fn region(data: *mut c_void) {
    // SAFETY: `parallel` passes it.
    let seen = unsafe { &*data.cast::<Seen>() };
    // SAFETY: calls of a thread in a region.
    unsafe {
        let size = omp_get_num_threads();
        lock(&seen.members).push((omp_get_thread_num(), size));
        for round in 1..=50 {
            seen.arrived.fetch_add(1, Ordering::Relaxed);
            GOMP_barrier();
            if seen.arrived.load(Ordering::Relaxed) < round * size as usize {
                seen.early.fetch_add(1, Ordering::Relaxed);
            }
            GOMP_barrier();
            if GOMP_single_start() {
                seen.singles.fetch_add(1, Ordering::Relaxed);
            }
        }
        for (start, end, step) in [(0, 100, 1), (7, -4, -3)] {
            let (mut first, mut last) = (0, 0);
            let mut has_more =
                GOMP_loop_nonmonotonic_dynamic_start(start, end, step, 8, &raw mut first, &raw mut last);
            while has_more {
                let taken = std::iter::successors(Some(first), |at| Some(at + step));
                let is_before = |at: &c_long| if step > 0 { *at < last } else { *at > last };
                lock(&seen.iterations).extend(taken.take_while(is_before));
                has_more = GOMP_loop_nonmonotonic_dynamic_next(&raw mut first, &raw mut last);
            }
            GOMP_loop_end();
        }
    }
}

fn check(num_threads: u32) {
    let seen = Seen::default();
    parallel(num_threads, region, &seen);
    let mut members = lock(&seen.members).clone();
    members.sort_unstable();
    let size = members.len() as i32;
    assert!(num_threads == 0 || size == num_threads as i32);
    assert_eq!(members, (0..size).map(|index| (index, size)).collect::<Vec<_>>());
    assert_eq!((seen.early.into_inner(), seen.singles.into_inner()), (0, 50));
    let mut iterations = lock(&seen.iterations).clone();
    iterations.sort_unstable();
    let mut expected: Vec<i64> = (0..100).chain([7, 4, 1, -2]).collect();
    expected.sort_unstable();
    assert_eq!(iterations, expected);
}

#[test]
fn a_team_meets_at_barriers_and_shares_loops() {
    for num_threads in [1, 2, 3, 3, 5, 2, 0] {
        check(num_threads);
    }
}

#[test]
fn members_that_share_threads_do_the_same() {
    for (num_threads, halvings) in [(2, 1), (4, 1), (4, 2), (5, 1), (5, 2), (3, 7)] {
        check(num_threads);
        // SAFETY: the call before has made this thread's team.
        unsafe { llmserve_leave_out_threads(halvings) };
        (0..3).for_each(|_| check(num_threads));
    }
}

/// Number of threads of each region of `took_ms`, by how many threads compute in it at a time on average.
fn crowd(took_ms: i64, rates: &[[f64; 5]]) -> Vec<i32> {
    let mut num_threads = vec![0; rates.len()];
    let table = rates.as_flattened();
    // SAFETY: rates for 0 to 4 threads, and a number of threads, for each region.
    unsafe {
        llmserve_crowd(
            4,
            took_ms * 1_000_000,
            table.as_ptr(),
            rates.len() as c_int,
            num_threads.as_mut_ptr(),
        );
    }
    num_threads
}

fn share_of(num_threads: &[i32], wanted: i32) -> f64 {
    num_threads.iter().filter(|&&count| count == wanted).count() as f64 / num_threads.len() as f64
}

#[test]
fn threads_that_compute_most_of_the_time_stay() {
    for took_ms in [1, 20, 1000] {
        assert_eq!(crowd(took_ms, &[[0.0, 1.0, 1.9, 2.0, 2.1]; 400]), [4; 400]);
    }
}

#[test]
fn as_many_threads_stay_as_get_most_computed() {
    for took_ms in [10, 60, 1000] {
        for (best, rate) in
            [(1, [0.0, 0.5, 0.2, 0.2, 0.1]), (2, [0.0, 0.3, 0.6, 0.0, 0.4]), (4, [0.0, 0.3, 0.4, 0.0, 0.6])]
        {
            let share = share_of(&crowd(took_ms, &vec![rate; 1000])[100..], best);
            assert!(share > 0.75, "{share} of the regions of {took_ms} ms with {best} threads");
        }
    }
}

#[test]
fn a_short_burst_of_another_process_leaves_no_thread_out() {
    for took_ms in [10, 25, 50] {
        let rates: Vec<[f64; 5]> = (0..4000)
            .map(|region| match region * took_ms % 400 {
                ..100 => [0.0, 1.0, 1.6, 1.7, 1.8],
                _ => [0.0, 1.0, 1.9, 2.9, 3.8],
            })
            .collect();
        assert_eq!(crowd(took_ms, &rates), vec![4; 4000], "regions of {took_ms} ms");
    }
}

#[test]
fn all_threads_work_again_when_the_others_have_gone() {
    for (took_ms, num_regions) in [(10, 400), (1000, 10)] {
        let mut rates = vec![[0.0, 0.5, 0.2, 0.2, 0.1]; 4000];
        rates.extend(vec![[0.0, 1.0, 1.9, 0.0, 3.8]; num_regions]);
        let num_threads = crowd(took_ms, &rates);
        assert_eq!((num_threads[3990], num_threads.last()), (1, Some(&4)), "regions of {took_ms} ms");
    }
}

#[test]
fn each_thread_has_a_team_of_its_own() {
    std::thread::scope(|scope| {
        for num_threads in 1..5 {
            scope.spawn(move || (0..20).for_each(|_| check(num_threads)));
        }
    });
}

#[test]
fn a_region_within_a_region_is_its_threads_alone() {
    unsafe extern "C" fn outer(data: *mut c_void) {
        // SAFETY: `parallel` passes it, and once more.
        unsafe { GOMP_parallel(inner, data, 4, 0) };
    }
    unsafe extern "C" fn inner(data: *mut c_void) {
        // SAFETY: as above.
        unsafe { &*data.cast::<Mutex<Vec<i32>>>() }.lock().unwrap().push(unsafe { omp_get_num_threads() });
    }
    let sizes = Mutex::new(Vec::<i32>::new());
    parallel(2, outer, &sizes);
    assert!(sizes.into_inner().unwrap().iter().all(|size| *size == 1));
}

#[test]
fn outside_a_region_a_thread_is_alone() {
    let (mut first, mut last) = (0, 0);
    // SAFETY: plain calls.
    unsafe {
        assert_eq!((omp_get_num_threads(), omp_get_thread_num()), (1, 0));
        GOMP_barrier();
        assert!(GOMP_single_start());
        assert!(GOMP_loop_nonmonotonic_dynamic_start(3, 9, 1, 2, &raw mut first, &raw mut last));
        assert_eq!((first, last), (3, 9));
        assert!(!GOMP_loop_nonmonotonic_dynamic_next(&raw mut first, &raw mut last));
    }
}
