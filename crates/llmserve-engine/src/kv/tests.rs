//! The verbs, on the fake context.

use super::*;
use crate::model::Row;
use crate::model::fake::{self, FakeContext, Memory};

fn cache(num_slots: usize, layout: KvLayout) -> KvCache {
    let limits = fake::limits(num_slots, 100, layout, 100 * num_slots);
    KvCache::new(Box::new(FakeContext::new(limits, Memory::Attention)), &SchedulerConfig::default())
}

fn tokens(text: &str) -> Vec<TokenId> {
    text.bytes().map(|byte| TokenId(i32::from(byte))).collect()
}

/// Admits a sequence among others and computes what has no cells yet.
fn run(kv: &mut KvCache, tokens: &[TokenId], residents: &[Resident<'_>]) -> Lease {
    let num_coverable = tokens.len() - 1;
    let wanted = Wanted { tokens, is_cached: true, num_coverable, wants_head: false, session: None };
    let Some(Place::Start(start)) = kv.choose(&wanted, residents) else {
        panic!("it starts at once");
    };
    let lease = kv.acquire(&wanted, start, residents.iter().map(|resident| resident.num_computed).sum());
    compute(kv, lease, tokens);
    lease
}

fn compute(kv: &mut KvCache, lease: Lease, tokens: &[TokenId]) {
    let pending = tokens.iter().enumerate().skip(lease.num_computed);
    let row = |(position, &token)| Row { slot: lease.slot, token, position: position as u32, output: false };
    let rows: Vec<Row> = pending.map(row).collect();
    for rows in rows.chunks(kv.limits().batch_size) {
        kv.compute().decode(rows).unwrap();
    }
}

#[test]
fn the_check_notices_wrong_books() {
    let mut kv = cache(2, KvLayout::PerSequence);
    let right = tokens("what was computed");
    let lease = run(&mut kv, &right, &[]);
    assert!(kv.check().is_err(), "a slot is busy");
    kv.release(lease.slot, right.clone(), 0);
    assert_eq!(kv.check(), Ok(()));
    let lease = run(&mut kv, &right, &[]);
    kv.release(lease.slot, tokens("what was COMPUTED"), 0);
    assert!(kv.check().is_err(), "other tokens");
    kv.clear(lease.slot);
    assert_eq!(kv.check(), Ok(()));
    let lease = run(&mut kv, &right, &[]);
    kv.release(lease.slot, right[..3].to_vec(), 0);
    assert!(kv.check().is_err(), "fewer tokens");
}

#[test]
fn a_sequence_that_gave_way_comes_back_with_its_cells() {
    for layout in [KvLayout::PerSequence, KvLayout::Unified] {
        let mut kv = cache(1, layout);
        let text = tokens(&"a sequence of some length ".repeat(3));
        let lease = run(&mut kv, &text, &[]);
        let suspended = kv.suspend(lease.slot, text.len()).unwrap();
        assert!(kv.num_parked_bytes() > 0 && kv.has_room_for(1, 0));
        let other = tokens("another one takes the slot");
        let slot = run(&mut kv, &other, &[]).slot;
        kv.release(slot, other, 0);
        let lease = kv.resume(suspended, slot, 0);
        assert_eq!(lease.num_computed, text.len());
        kv.release(lease.slot, text, 0);
        assert_eq!(kv.check(), Ok(()));
    }
}

#[test]
fn a_copy_leaves_the_running_sequence_its_cells() {
    let mut kv = cache(3, KvLayout::PerSequence);
    let first = tokens(&"shared by both of them ".repeat(3));
    let lease = run(&mut kv, &first, &[]);
    let resident = Resident {
        slot: lease.slot,
        tokens: &first,
        num_prompt: first.len(),
        num_computed: first.len(),
        is_shared: true,
        num_left: 10,
    };
    let second = [first[..60].to_vec(), tokens("and then not")].concat();
    let copied = run(&mut kv, &second, &[resident]);
    assert_eq!(copied.num_computed, 60);
    kv.release(copied.slot, second, 0);
    kv.release(lease.slot, first, 0);
    assert_eq!(kv.check(), Ok(()));
}

#[test]
fn a_gap_closes_and_the_moved_sequence_keeps_its_cells() {
    let mut kv = cache(4, KvLayout::PerSequence);
    let texts = ["the first of three", "the second of three", "the third of three"].map(tokens);
    let slots = [0, 1, 2].map(|index| run(&mut kv, &texts[index], &[]).slot);
    let middle = slots.iter().position(|slot| slot.index() == 1).unwrap();
    kv.clear(slots[middle]);
    let left = [0, 1, 2].into_iter().filter(|&index| index != middle);
    let residents: Vec<Resident<'_>> = left
        .map(|index| Resident {
            slot: slots[index],
            tokens: &texts[index],
            num_prompt: texts[index].len(),
            num_computed: texts[index].len(),
            is_shared: true,
            num_left: 1000,
        })
        .collect();
    let (from, to) = kv.close_gap(&residents).unwrap();
    assert_eq!(to.index(), 1);
    for resident in &residents {
        let slot = if resident.slot == from { to } else { resident.slot };
        kv.release(slot, resident.tokens.to_vec(), 0);
    }
    assert_eq!(kv.check(), Ok(()));
}
