use proptest::prelude::*;

use super::*;
use crate::config::SchedulerConfig;

fn decode(index: usize) -> Candidate {
    Candidate {
        index,
        position: 0,
        num_pending: 1,
        num_new: 1000,
        num_generated: 1000,
        num_drafted: 0,
        max_chunk: usize::MAX,
        served: 0,
        arrival: index as u64,
    }
}

fn prompt(index: usize, num_pending: usize) -> Candidate {
    Candidate { num_pending, num_new: num_pending, num_generated: 0, ..decode(index) }
}

fn share(index: usize, num_tokens: usize) -> Share {
    Share { index, num_tokens, num_drafted: 0 }
}

/// How long a step takes on the machine of these tests: 10 ms and 2 ms a row.
fn took(rows: usize) -> Duration {
    Duration::from_millis(10 + 2 * rows as u64)
}

/// Within 150 ms there are 70 rows; 67 where a step of one stream comes before.
fn scheduler(takes_turns: bool) -> Scheduler {
    let mut scheduler = Scheduler::new(&SchedulerConfig::default(), takes_turns, 64, false);
    for rows in [1, 64, 256, 1] {
        scheduler.budget.record(rows, false, took(rows));
    }
    scheduler
}

fn plan(candidates: &[Candidate], max_rows: usize) -> Plan {
    scheduler(false).plan(candidates, max_rows)
}

/// Plans a step and enters what it takes.
fn step(scheduler: &mut Scheduler, candidates: &[Candidate]) -> Plan {
    let plan = scheduler.plan(candidates, 512);
    scheduler.record(&plan, took(plan.num_decode_rows() + plan.num_prefill_rows()));
    plan
}

#[test]
fn decode_rows_come_first_and_a_chunk_fills_the_budget() {
    let plan = plan(&[prompt(0, 2000), decode(1), decode(2)], 512);
    assert_eq!(plan.decode, [share(1, 1), share(2, 1)]);
    assert_eq!(plan.prefill, [share(0, 64)]);
}

#[test]
fn a_lone_prompt_gets_the_idle_chunk() {
    assert_eq!(plan(&[prompt(0, 2000)], 512).prefill, [share(0, 256)]);
}

#[test]
fn a_chunk_ends_at_a_border_of_tiles_or_with_its_prompt() {
    let at = |position, num_pending| Candidate { position, ..prompt(0, num_pending) };
    assert_eq!(plan(&[at(10, 2000)], 512).prefill, [share(0, 246)]);
    assert_eq!(plan(&[at(10, 200)], 512).prefill, [share(0, 200)]);
    assert_eq!(plan(&[at(100, 2000)], 100).prefill, [share(0, 92)]);
    assert_eq!(plan(&[at(192, 2000)], 50).prefill, [share(0, 32)], "half of a tile");
    assert_eq!(plan(&[at(224, 2000)], 50).prefill, [share(0, 32)]);
}

#[test]
fn the_oldest_and_the_shortest_prompt_are_first_in_turns() {
    let mut scheduler = scheduler(false);
    let candidates = [prompt(0, 2000), prompt(1, 20), prompt(2, 100)];
    assert_eq!(step(&mut scheduler, &candidates).prefill, [share(0, 64)]);
    assert_eq!(step(&mut scheduler, &candidates).prefill, [share(1, 20)]);
    assert_eq!(step(&mut scheduler, &candidates).prefill, [share(0, 64)]);
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
fn drafts_leave_a_prompt_its_share() {
    let planned = |num_pending| {
        let drafting = |index| Candidate { num_drafted: 8, ..decode(index) };
        let mut candidates: Vec<Candidate> = (1..=16).map(drafting).collect();
        candidates.push(prompt(0, num_pending));
        let plan = plan(&candidates, 128);
        (plan.num_prefill_rows(), plan.num_decode_rows())
    };
    assert_eq!(planned(2000), (64, 64));
    assert_eq!(planned(10), (10, 118));
}

#[test]
fn streams_and_prompts_take_turns() {
    let mut scheduler = scheduler(true);
    let candidates = [prompt(0, 2000), decode(1), decode(2)];
    let streams = Plan { decode: vec![share(1, 1), share(2, 1)], ..Plan::default() };
    let prompts = Plan { num_resting: 2, prefill: vec![share(0, 64)], ..Plan::default() };
    for _ in 0..5 {
        assert_eq!(
            step(&mut scheduler, &candidates),
            prompts,
            "a whole tile, though it takes 2 ms more than is left"
        );
        assert_eq!(step(&mut scheduler, &candidates), streams);
    }
}

#[test]
fn a_tile_that_takes_too_long_is_computed_in_parts() {
    let chunk = |is_deterministic| {
        let mut scheduler = Scheduler::new(&SchedulerConfig::default(), true, 64, is_deterministic);
        for rows in [1, 64, 1] {
            scheduler.budget.record(rows, false, Duration::from_millis(10 + 8 * rows as u64));
        }
        scheduler.plan(&[prompt(0, 2000), decode(1)], 512).prefill
    };
    assert_eq!(chunk(false), [share(0, 16)]);
    assert_eq!(chunk(true), [share(0, 64)]);
}

#[test]
fn streams_that_have_just_begun_wait_for_short_prompts() {
    let mut scheduler = scheduler(true);
    let beginner = |index| Candidate { num_generated: JUST_BEGUN, ..decode(index) };
    let rest_of_long = |index| Candidate { num_new: 2000, ..prompt(index, 100) };
    let candidates = [beginner(0), prompt(1, 60), prompt(2, 60), prompt(3, 60), rest_of_long(4)];
    for _ in 0..3 {
        let plan = step(&mut scheduler, &candidates);
        assert!(plan.decode.is_empty() && plan.prefill.iter().all(|share| share.index < 4), "{plan:?}");
    }
    let established = [beginner(0), prompt(1, 60), prompt(2, 60), decode(3)];
    assert_eq!(step(&mut scheduler, &established).decode, [share(0, 1), share(3, 1)]);
}

#[test]
fn a_long_prompt_is_computed_beside_short_ones_without_end() {
    let mut scheduler = scheduler(true);
    let beginner = |index| Candidate { num_generated: 1, ..decode(index) };
    let mut left = 2000;
    for step_number in 0..600 {
        let short = |index| Candidate { arrival: 1000 + step_number, ..prompt(index, 200) };
        let long = Candidate { num_new: 2000, ..prompt(3, left) };
        let plan = step(&mut scheduler, &[beginner(0), short(1), short(2), long]);
        left -=
            plan.prefill.iter().filter(|share| share.index == 3).map(|share| share.num_tokens).sum::<usize>();
        if left == 0 {
            return;
        }
    }
    panic!("{left} of 2000 tokens are left");
}

#[test]
fn the_tenant_that_was_served_least_has_the_oldest_prompt() {
    let flood = Candidate { served: 100, ..prompt(0, 2000) };
    let newcomer = Candidate { served: 50, ..prompt(1, 3000) };
    assert_eq!(plan(&[flood, newcomer], 512).prefill[0].index, 1);
}

#[test]
fn they_wait_for_a_bounded_time() {
    let mut scheduler = scheduler(true);
    let beginner = Candidate { num_generated: 1, ..decode(0) };
    let candidates: Vec<Candidate> =
        std::iter::once(beginner).chain((1..40).map(|index| prompt(index, 60))).collect();
    let rests = (0..20).take_while(|_| step(&mut scheduler, &candidates).decode.is_empty()).count();
    assert!((8..=10).contains(&rests), "{rests} steps of some 130 ms");
}

#[test]
fn forced_tokens_are_decode_rows_up_to_a_limit() {
    let forced = |index, num_pending| Candidate { num_pending, ..decode(index) };
    let plan = plan(&[forced(0, 5), decode(1), forced(2, 17)], 512);
    assert_eq!(plan.decode, [share(0, 5), share(1, 1)]);
    assert_eq!(plan.prefill, [share(2, 17)]);
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
            Candidate { num_drafted, max_chunk, arrival: (index * 7 % 11) as u64, num_generated: usize::from(is_generating) * 64, ..prompt(index, num_pending) }
        }).collect();
        let decoding: Vec<&Candidate> = candidates.iter().filter(|c| c.is_decode()).collect();
        let decode_rows: usize = decoding.iter().map(|c| c.num_pending).sum();
        let mut scheduler = scheduler(takes_turns);
        let mut plan = scheduler.plan(&candidates, max_rows);
        if is_second {
            scheduler.record(&plan, took(plan.num_decode_rows() + plan.num_prefill_rows()));
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
            prop_assert!(takes_turns && plan.decode.is_empty());
        }
    }
}
