//! Admission among several tenants, counted in steps.

use super::*;
use crate::config::KvLayout;
use crate::ids::{RequestId, TokenId};
use crate::model::fake::{self, FakeContext, FakeVocabulary, Memory};
use crate::outbox::Outbox;
use crate::output::{Output, Text};
use crate::queue::Queue;
use crate::request::{Delivery, GenerationRequest, RequestParts, StopParams};
use crate::sequence::Prepared;
use crate::tenant::Tenant;
use crate::worker::ticket::Preparing;

const KINDS: [(Memory, KvLayout); 4] = [
    (Memory::Attention, KvLayout::PerSequence),
    (Memory::Attention, KvLayout::Unified),
    (Memory::SlidingWindow(16), KvLayout::PerSequence),
    (Memory::Recurrent, KvLayout::PerSequence),
];
const NUM_SLOTS: usize = 8;

/// An engine thread that goes step by step.
struct Stepper {
    core: Core,
    num_submitted: u64,
}

impl Stepper {
    fn new((memory, layout): (Memory, KvLayout)) -> Self {
        let limits = fake::limits(NUM_SLOTS, 512, layout, NUM_SLOTS * 128);
        let config = SchedulerConfig { max_queued_requests: 1000, ..SchedulerConfig::default() };
        let queue = Queue::new(config.max_queued_requests, config.max_queued_tokens);
        let shared = Arc::new(Shared::new(queue));
        let (_, commands) = crossbeam_channel::unbounded();
        let context = Box::new(FakeContext::new(limits, memory));
        let core = Core::new(context, Arc::new(FakeVocabulary), &config, shared, commands);
        Self { core, num_submitted: 0 }
    }

    /// Prompts differ from their first token on.
    fn submit(&mut self, tenant: &str, num_prompt: usize, max_tokens: u32) -> Arc<Outbox> {
        let number = self.num_submitted;
        self.num_submitted += 1;
        let mut prompt: Vec<TokenId> = number.to_be_bytes().map(|byte| TokenId(byte.into())).into();
        prompt.reverse();
        prompt.resize(num_prompt.max(prompt.len()), TokenId(65));
        let stopping = StopParams { max_tokens: Some(max_tokens), ignore_eos: true, ..StopParams::default() };
        let parts = RequestParts { stopping, ..RequestParts::tokens(prompt.clone(), max_tokens) };
        let request = GenerationRequest::new(parts).unwrap();
        let most = prompt.len() + max_tokens as usize;
        let text = Text { tokens: &mut prompt, vocabulary: &FakeVocabulary };
        let output = Output::new(&request, 0, &text, most, None);
        let outbox = Arc::new(Outbox::new(RequestId(number), Delivery::AtEnd, None));
        let prepared = Prepared {
            request,
            prompt,
            seed: 0,
            output,
            outbox: Arc::clone(&outbox),
            drafter: None,
            turn: None,
            head: None,
            submitted: Instant::now(),
        };
        let place = self.core.shared.queue.enter(Tenant::new(tenant)).unwrap();
        Preparing::new(&self.core.shared).hand_over();
        self.core.handle(Command::Submit(Box::new(prepared), place));
        outbox
    }

    fn step(&mut self) {
        self.core.step();
        self.core.publish();
    }

    /// How many steps a request takes to its end.
    fn steps_to_end(&mut self, outbox: &Outbox) -> usize {
        let mut num_steps = 0;
        while !outbox.is_over() {
            self.step();
            num_steps += 1;
        }
        num_steps
    }
}

#[test]
fn beside_a_flood_a_newcomer_takes_twice_its_time_alone_at_most() {
    for kind in KINDS {
        for (num_prompt, max_tokens) in [(16, 40), (100, 10), (10, 100)] {
            let mut idle = Stepper::new(kind);
            let newcomer = idle.submit("newcomer", num_prompt, max_tokens);
            let alone = idle.steps_to_end(&newcomer);
            for num_before in [1, 2, 30, 61] {
                let mut busy = Stepper::new(kind);
                for number in 0..500 {
                    busy.submit("flood", 10 + number % 50, 50 + number as u32 % 70);
                }
                for _ in 0..num_before {
                    busy.step();
                }
                let newcomer = busy.submit("newcomer", num_prompt, max_tokens);
                let beside = busy.steps_to_end(&newcomer);
                assert!(
                    beside <= 2 * alone + 1,
                    "{kind:?}: {num_prompt}+{max_tokens} after {num_before} steps took {beside}, alone {alone}"
                );
            }
        }
    }
}

#[test]
fn a_flood_does_not_wait_for_a_newcomer_either() {
    let mut stepper = Stepper::new(KINDS[0]);
    let flood: Vec<_> = (0..40).map(|_| stepper.submit("flood", 10, 40)).collect();
    for _ in 0..5 {
        stepper.step();
    }
    let newcomer: Vec<_> = (0..40).map(|_| stepper.submit("newcomer", 10, 40)).collect();
    for outbox in &newcomer {
        stepper.steps_to_end(outbox);
    }
    let num_over = flood.iter().filter(|outbox| outbox.is_over()).count();
    // Both had about as many tokens.
    assert!((30..=40).contains(&num_over), "{num_over}");
    for outbox in &flood {
        stepper.steps_to_end(outbox);
    }
    // Only a tenant without a slot takes one.
    assert!(stepper.core.stats.preemptions < 16, "{}", stepper.core.stats.preemptions);
}
