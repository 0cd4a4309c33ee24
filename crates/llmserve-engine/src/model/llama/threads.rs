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
    fn llmserve_crowd(
        all: c_int,
        took_ns: i64,
        waited_share: *const f64,
        count: c_int,
        num_threads: *mut c_int,
    );
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

/// Number of threads of each of 400 regions of 20 ms, by the share of a region for which each thread waits.
fn crowd(waited_share: [f64; 5]) -> Vec<i32> {
    let mut num_threads = vec![0; 400];
    // SAFETY: both arrays have the given lengths: up to four threads, and 400 regions.
    unsafe { llmserve_crowd(4, 20_000_000, waited_share.as_ptr(), 400, num_threads.as_mut_ptr()) };
    num_threads
}

#[test]
fn threads_that_work_stay() {
    assert_eq!(crowd([0.0, 0.0, 0.3, 0.3, 0.3]), [4; 400]);
}

#[test]
fn threads_that_mostly_wait_are_left_out_and_seldom_tried_again() {
    let num_threads = crowd([0.0, 0.0, 0.8, 0.8, 0.8]);
    assert_eq!(num_threads[..3], [4, 2, 1]);
    let num_trials = num_threads.iter().filter(|&&count| count > 1).count();
    assert!((4..=20).contains(&num_trials), "{num_trials} of 400 regions with threads that wait");
}

#[test]
fn as_many_threads_stay_as_are_of_use() {
    let num_threads = crowd([0.0, 0.0, 0.1, 0.1, 0.8]);
    let num_of_use = num_threads.iter().filter(|&&count| count == 2).count();
    assert!(num_of_use >= 380, "{num_of_use} of 400 regions with two threads");
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
