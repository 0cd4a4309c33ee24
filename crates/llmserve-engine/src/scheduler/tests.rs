use proptest::prelude::*;

use super::*;
use crate::config::SchedulerConfig;

fn decode(index: usize) -> Candidate {
    Candidate {
        index,
        num_pending: 1,
        is_generating: true,
        num_drafted: 0,
        max_chunk: usize::MAX,
        arrival: index as u64,
    }
}

fn prompt(index: usize, num_pending: usize) -> Candidate {
    Candidate { num_pending, is_generating: false, ..decode(index) }
}

fn share(index: usize, num_tokens: usize) -> Share {
    Share { index, num_tokens, num_drafted: 0 }
}

/// On a machine where steps that only decode have been measured.
fn scheduler(takes_turns: bool) -> Scheduler {
    let mut scheduler = Scheduler::new(&SchedulerConfig::default(), takes_turns);
    for rows in 1..128 {
        scheduler.budget.record(rows, 0, Duration::from_millis(30));
    }
    scheduler
}

fn plan(candidates: &[Candidate], max_rows: usize) -> Plan {
    scheduler(false).plan(candidates, max_rows)
}

#[test]
fn decode_rows_come_first_and_a_chunk_fills_the_budget() {
    let plan = plan(&[prompt(0, 2000), decode(1), decode(2)], 512);
    assert_eq!(plan.decode, [share(1, 1), share(2, 1)]);
    assert_eq!(plan.prefill, [share(0, 8)]);
}

#[test]
fn a_lone_prompt_gets_the_idle_chunk() {
    assert_eq!(plan(&[prompt(0, 2000)], 512).prefill, [share(0, 128)]);
}

#[test]
fn a_short_prompt_does_not_wait_for_a_long_one() {
    let plan = plan(&[prompt(0, 2000), prompt(1, 20), prompt(2, 100)], 512);
    assert_eq!(plan.prefill, [share(0, 64), share(1, 20), share(2, 44)]);
}

#[test]
fn what_short_prompts_leave_goes_to_the_oldest() {
    let plan = plan(&[prompt(0, 2000), prompt(1, 20)], 512);
    assert_eq!(plan.prefill, [share(0, 108), share(1, 20)]);
}

#[test]
fn a_chunk_keeps_to_its_own_limit() {
    let limited = Candidate { max_chunk: 16, ..prompt(0, 2000) };
    assert_eq!(plan(&[limited], 512).prefill, [share(0, 16)]);
}

#[test]
fn drafts_are_dropped_before_rows() {
    let drafting = |index| Candidate { num_drafted: 3, ..decode(index) };
    let plan = plan(&[drafting(0), drafting(1), decode(2)], 5);
    let drafted: Vec<usize> = plan.decode.iter().map(|share| share.num_drafted).collect();
    assert_eq!(drafted, [2, 0, 0]);
}

#[test]
fn streams_and_prompts_take_turns() {
    let mut scheduler = scheduler(true);
    let candidates = [prompt(0, 2000), decode(1), decode(2)];
    let streams = Plan { decode: vec![share(1, 1), share(2, 1)], ..Plan::default() };
    let prompts = Plan { num_resting: 2, prefill: vec![share(0, 8)], ..Plan::default() };
    assert_eq!(scheduler.plan(&candidates, 512), streams);
    assert_eq!(scheduler.plan(&candidates, 512), prompts);
    assert_eq!(scheduler.plan(&candidates, 512), streams);
}

#[test]
fn a_prompt_that_arrives_after_a_quiet_step_has_the_next_turn() {
    let mut scheduler = scheduler(true);
    assert_eq!(scheduler.plan(&[decode(0)], 512).decode, [share(0, 1)]);
    assert_eq!(scheduler.plan(&[decode(0), prompt(1, 100)], 512).prefill, [share(1, 8)]);
}

#[test]
fn a_turn_of_the_prompts_fills_what_a_busy_step_may_take_beyond_a_quiet_one() {
    let factor = f64::from(SchedulerConfig::default().busy_step_factor);
    let mut scheduler = scheduler(true);
    let candidates = [prompt(0, 20_000), decode(1), decode(2)];
    let mut chunk = 0;
    for _ in 0..60 {
        let plan = scheduler.plan(&candidates, 512);
        let rows = plan.num_prefill_rows();
        let took = if rows == 0 { 30 } else { 2 * rows as u64 };
        scheduler.record(&plan, Duration::from_millis(took));
        chunk = chunk.max(rows);
    }
    assert_eq!(chunk, ((factor - 1.0) * 30.0 / 2.0) as usize);
}

#[test]
fn forced_tokens_are_decode_rows_up_to_a_limit() {
    let forced = |index, num_pending| Candidate { num_pending, ..decode(index) };
    let plan = plan(&[forced(0, 5), decode(1), forced(2, 17)], 512);
    assert_eq!(plan.decode, [share(0, 5), share(1, 1)]);
    assert_eq!(plan.prefill, [share(2, 8)]);
    let short = scheduler(false).plan(&[forced(0, 5), decode(1), forced(2, 9)], 10);
    assert_eq!(short.decode, [share(0, 5), share(1, 1), share(2, 4)]);
}

#[test]
fn many_sequences_have_one_row_each_where_batches_are_split() {
    let forced = |index| Candidate { num_pending: 5, ..decode(index) };
    let rows = |takes_turns, count| {
        scheduler(takes_turns).plan(&(0..count).map(forced).collect::<Vec<_>>(), 512).num_decode_rows()
    };
    assert_eq!([rows(true, 3), rows(true, 4), rows(false, 4)], [15, 4, 20]);
}

#[test]
fn a_draft_follows_the_last_pending_token_only() {
    let forced = Candidate { num_pending: 5, num_drafted: 2, ..decode(0) };
    let drafted = |max_rows| plan(&[forced], max_rows).decode[0].num_drafted;
    assert_eq!([drafted(4), drafted(6), drafted(9)], [0, 1, 2]);
}

proptest! {
    #[test]
    fn a_plan_keeps_its_limits(
        pending in prop::collection::vec((1usize..600, 0usize..8, 1usize..64, any::<bool>()), 1..40),
        max_rows in 1usize..128,
        takes_turns: bool,
        is_second: bool,
    ) {
        let candidates: Vec<Candidate> = pending.iter().enumerate().map(|(index, &(num_pending, num_drafted, max_chunk, is_generating))| {
            Candidate { index, num_pending, is_generating, num_drafted, max_chunk, arrival: (index * 7 % 11) as u64 }
        }).collect();
        let decoding: Vec<&Candidate> = candidates.iter().filter(|c| c.is_decode()).collect();
        let decode_rows: usize = decoding.iter().map(|c| c.num_pending).sum();
        let mut scheduler = scheduler(takes_turns);
        let mut plan = scheduler.plan(&candidates, max_rows);
        if is_second {
            plan = scheduler.plan(&candidates, max_rows);
        }

        prop_assert!(plan.num_decode_rows() + plan.num_prefill_rows() <= max_rows);
        prop_assert!(!plan.is_empty());
        let mut seen: Vec<usize> = plan.shares().map(|share| share.index).collect();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), plan.shares().count());
        for share in plan.shares() {
            let candidate = &candidates[share.index];
            prop_assert!(share.num_tokens >= 1);
            let limit = if candidate.is_decode() { usize::MAX } else { candidate.max_chunk.max(1) };
            prop_assert!(share.num_tokens <= candidate.num_pending.min(limit));
            prop_assert!(share.num_drafted <= candidate.num_drafted);
        }
        if plan.num_resting == 0 {
            let pending: usize = plan.decode.iter().map(|share| share.num_tokens).sum();
            if !takes_turns || decoding.len() <= MAX_UNEQUAL {
                prop_assert_eq!(pending, decode_rows.min(max_rows));
            } else {
                prop_assert_eq!(pending, decoding.len().min(max_rows));
            }
        } else {
            prop_assert!(takes_turns && is_second && plan.decode.is_empty());
        }
    }
}
