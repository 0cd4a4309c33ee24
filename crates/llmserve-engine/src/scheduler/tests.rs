use proptest::prelude::*;

use super::*;
use crate::config::SchedulerConfig;

fn decode(index: usize) -> Candidate {
    Candidate { index, num_pending: 1, num_drafted: 0, max_chunk: usize::MAX, arrival: index as u64 }
}

fn prompt(index: usize, num_pending: usize) -> Candidate {
    Candidate { num_pending, ..decode(index) }
}

fn share(index: usize, num_tokens: usize) -> Share {
    Share { index, num_tokens, num_drafted: 0 }
}

/// A machine on which steps that only decode have been measured.
fn budget() -> StepBudget {
    let mut budget = StepBudget::new(&SchedulerConfig::default());
    for rows in 1..128 {
        budget.record(rows, 0, std::time::Duration::from_millis(30));
    }
    budget
}

#[test]
fn decode_rows_come_first_and_a_chunk_fills_the_budget() {
    let plan = plan(&[prompt(0, 2000), decode(1), decode(2)], 512, &budget());
    assert_eq!(plan.decode, [share(1, 1), share(2, 1)]);
    assert_eq!(plan.prefill, [share(0, 8)]);
}

#[test]
fn a_lone_prompt_gets_the_idle_chunk() {
    assert_eq!(plan(&[prompt(0, 2000)], 512, &budget()).prefill, [share(0, 128)]);
}

#[test]
fn a_short_prompt_does_not_wait_for_a_long_one() {
    let plan = plan(&[prompt(0, 2000), prompt(1, 20), prompt(2, 100)], 512, &budget());
    assert_eq!(plan.prefill, [share(0, 64), share(1, 20), share(2, 44)]);
}

#[test]
fn what_short_prompts_leave_goes_to_the_oldest() {
    let plan = plan(&[prompt(0, 2000), prompt(1, 20)], 512, &budget());
    assert_eq!(plan.prefill, [share(0, 108), share(1, 20)]);
}

#[test]
fn a_chunk_keeps_to_its_own_limit() {
    let limited = Candidate { max_chunk: 16, ..prompt(0, 2000) };
    assert_eq!(plan(&[limited], 512, &budget()).prefill, [share(0, 16)]);
}

#[test]
fn drafts_are_dropped_before_rows() {
    let drafting = |index| Candidate { num_drafted: 3, ..decode(index) };
    let plan = plan(&[drafting(0), drafting(1), decode(2)], 5, &budget());
    let drafted: Vec<usize> = plan.decode.iter().map(|share| share.num_drafted).collect();
    assert_eq!(drafted, [2, 0, 0]);
}

proptest! {
    #[test]
    fn a_plan_keeps_its_limits(
        pending in prop::collection::vec((1usize..600, 0usize..8, 1usize..64), 1..40),
        max_rows in 1usize..128,
    ) {
        let candidates: Vec<Candidate> = pending.iter().enumerate().map(|(index, &(num_pending, num_drafted, max_chunk))| {
            Candidate { index, num_pending, num_drafted, max_chunk, arrival: (index * 7 % 11) as u64 }
        }).collect();
        let plan = plan(&candidates, max_rows, &budget());

        prop_assert!(plan.num_decode_rows() + plan.num_prefill_rows() <= max_rows);
        prop_assert!(!plan.is_empty());
        let mut seen: Vec<usize> = plan.shares().map(|share| share.index).collect();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), plan.shares().count());
        for share in plan.shares() {
            let candidate = &candidates[share.index];
            prop_assert!(share.num_tokens >= 1);
            prop_assert!(share.num_tokens <= candidate.num_pending.min(candidate.max_chunk.max(1)));
            prop_assert!(share.num_drafted <= candidate.num_drafted);
        }
        let decoding = candidates.iter().filter(|c| c.num_pending == 1).count();
        prop_assert_eq!(plan.decode.len(), decoding.min(max_rows));
    }
}
