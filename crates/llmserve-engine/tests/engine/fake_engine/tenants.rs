//! Requests of several tenants.

use llmserve_engine::model::fake;
use llmserve_engine::*;

use super::{KINDS, assert_expected, assert_idle, prompt, settled};
use crate::common::{FakeEngine, collect, greedy};

fn of(tenant: &str, request: GenerationRequest) -> Submission {
    Submission { tenant: Tenant::new(tenant), ..request.into() }
}

#[test]
fn who_gives_way_to_a_newcomer_has_the_text_of_each_alone() {
    for memory in KINDS {
        let setup = FakeEngine { memory, ..FakeEngine::default() };
        let engine = setup.start();
        let tenants = ["flood", "flood", "flood", "second", "third"];
        let handles: Vec<_> = (0..100)
            .map(|index| {
                let tenant = tenants[index / 10 % tenants.len()];
                engine.submit(of(tenant, greedy(&prompt(index), 60)), None)
            })
            .collect();
        for (index, handle) in handles.iter().enumerate() {
            assert_expected(&collect(handle).unwrap(), &prompt(index), 60);
        }
        settled(&engine);
        assert_idle(&engine);
    }
}

#[test]
fn a_flood_leaves_newcomers_a_share_of_the_queue() {
    let setup = FakeEngine {
        limits: fake::limits(1, 512, KvLayout::PerSequence, 512),
        scheduler: SchedulerConfig { max_queued_requests: 4, ..SchedulerConfig::default() },
        ..FakeEngine::default()
    };
    let engine = setup.start();
    let flood: Vec<_> =
        (0..50).map(|index| engine.submit(of("flood", greedy(&prompt(index), 50)), None)).collect();
    let newcomer = [0, 1].map(|index| engine.submit(of("newcomer", greedy(&prompt(index), 50)), None));
    for handle in &newcomer {
        assert!(collect(handle).is_ok());
    }
    let refused = flood.iter().filter(|handle| collect(handle).is_err()).count();
    assert!(refused > 0);
    assert_eq!(settled(&engine).requests_refused, refused as u64);
}
