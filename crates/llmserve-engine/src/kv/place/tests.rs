use super::*;

/// Prices of a small machine: 4 ms a token, 23 kB of cells a token at 1 GB/s.
const PRICES: Prices = Prices { token: 0.004, byte: 1e-9, gap: 0.007 };
const BYTES: usize = 23_000;

fn empty(slot: u32) -> Room {
    Room { slot: SlotId(slot), held: None, num_neighbours: 0, is_apart: false }
}

fn idle(slot: u32, len: usize) -> Room {
    let held = Held { len, bytes: len * BYTES, can_save: true, chance: 0.5 };
    Room { held: Some(held), ..empty(slot) }
}

fn unsaved(slot: u32, len: usize) -> Room {
    let room = idle(slot, len);
    Room { held: room.held.map(|held| Held { can_save: false, ..held }), ..room }
}

fn offer(origin: Origin, shared: usize, len: usize) -> Offer {
    let moves = if matches!(origin, Origin::Parked(_)) { 1 } else { 2 };
    Offer { origin, shared, len, bytes: Some(moves * len * BYTES) }
}

fn idle_offer(slot: u32, shared: usize, len: usize) -> Offer {
    offer(Origin::Idle(SlotId(slot)), shared, len)
}

fn start(source: Source, shared: usize, slot: u32) -> Place {
    Place::Start(Start { source, shared, slot: SlotId(slot) })
}

fn chosen(num_tokens: usize, offers: &[Offer], rooms: &[Room]) -> Option<Place> {
    choose(num_tokens, offers, rooms, None, &PRICES)
}

#[test]
fn an_empty_slot_is_there_and_the_long_conversation_stays() {
    for shared in [1, 7, 8, 20, 90] {
        let place = chosen(300, &[idle_offer(0, shared, 8000)], &[unsaved(0, 8000), empty(1)]);
        assert_eq!(place, Some(start(Source::Nothing, 0, 1)), "{shared} shared");
    }
    assert_eq!(chosen(300, &[], &[]), None);
}

#[test]
fn who_asks_the_same_again_gets_the_cells_though_a_short_answer_is_lost() {
    let rooms = [idle(0, 12), empty(1)];
    assert_eq!(chosen(4, &[idle_offer(0, 4, 12)], &rooms), Some(start(Source::TakeOver, 4, 0)));
    assert_eq!(chosen(5, &[idle_offer(0, 4, 12)], &rooms), Some(start(Source::Nothing, 0, 1)));
}

#[test]
fn eight_shared_of_eight_thousand_are_computed_not_copied() {
    for origin in [Origin::Idle(SlotId(0)), Origin::Running(SlotId(9)), Origin::Parked(3)] {
        let place = chosen(300, &[offer(origin, 8, 8000)], &[idle(0, 8000), empty(1)]);
        assert_eq!(place, Some(start(Source::Nothing, 0, 1)), "{origin:?}");
    }
}

#[test]
fn a_long_shared_beginning_is_copied_and_leaves_the_conversation_whole() {
    let place = chosen(4000, &[idle_offer(0, 3000, 8000)], &[idle(0, 8000), empty(1)]);
    assert_eq!(place, Some(start(Source::Copy(SlotId(0)), 3000, 1)));
    let running = offer(Origin::Running(SlotId(5)), 500, 600);
    assert_eq!(chosen(600, &[running], &[empty(1)]), Some(start(Source::Copy(SlotId(5)), 500, 1)));
}

#[test]
fn a_conversation_that_goes_on_takes_its_slot_over() {
    for shared in [3, 100, 8000] {
        let place = chosen(shared + 20, &[idle_offer(0, shared, shared)], &[idle(0, shared), empty(1)]);
        assert_eq!(place, Some(start(Source::TakeOver, shared, 0)));
    }
    // Another answer to the same question: what is cut off is hardly wanted again.
    let place = chosen(1000, &[idle_offer(0, 980, 1000)], &[idle(0, 1000), empty(1)]);
    assert_eq!(place, Some(start(Source::TakeOver, 980, 0)));
}

#[test]
fn a_parked_conversation_is_restored_by_what_it_saves() {
    let rooms = [empty(0)];
    let parked = |shared, len| offer(Origin::Parked(2), shared, len);
    assert_eq!(chosen(900, &[parked(800, 800)], &rooms), Some(start(Source::Parked(2), 800, 0)));
    assert_eq!(chosen(900, &[parked(30, 8000)], &rooms), Some(start(Source::Nothing, 0, 0)));
    // Of two choices, the one that gives most for its price wins.
    let long = Offer { origin: Origin::Parked(1), ..parked(810, 80_000) };
    assert_eq!(chosen(900, &[long, parked(800, 800)], &rooms), Some(start(Source::Parked(2), 800, 0)));
}

#[test]
fn without_an_empty_slot_the_cheapest_cells_give_way() {
    assert_eq!(chosen(300, &[], &[unsaved(0, 8000), unsaved(1, 50)]), Some(start(Source::Nothing, 0, 1)));
    // The one that is least likely to go on.
    let mut old = unsaved(0, 500);
    old.held = old.held.map(|held| Held { chance: 0.1, ..held });
    assert_eq!(chosen(300, &[], &[unsaved(1, 400), old]), Some(start(Source::Nothing, 0, 0)));
    // A visitor that shares a little costs what it cuts off.
    let rooms = [unsaved(0, 8000), unsaved(1, 50)];
    assert_eq!(chosen(300, &[idle_offer(0, 40, 8000)], &rooms), Some(start(Source::Nothing, 0, 1)));
}

#[test]
fn cells_that_cannot_be_moved_are_used_in_their_slot_or_not() {
    let fixed = Offer { bytes: None, ..idle_offer(0, 500, 500) };
    assert_eq!(chosen(600, &[fixed], &[idle(0, 500), empty(1)]), Some(start(Source::TakeOver, 500, 0)));
    let cut = Offer { bytes: None, ..idle_offer(0, 100, 500) };
    assert_eq!(chosen(600, &[cut], &[idle(0, 500), empty(1)]), Some(start(Source::Nothing, 0, 1)));
}

#[test]
fn a_new_sequence_goes_beside_running_ones() {
    let beside = Room { num_neighbours: 1, ..empty(4) };
    let between = Room { num_neighbours: 2, ..empty(6) };
    assert_eq!(chosen(300, &[], &[empty(0), beside, between]), Some(start(Source::Nothing, 0, 6)));
    // Not in the place of a conversation.
    let taken = Room { num_neighbours: 1, ..idle(1, 100) };
    let apart = Room { is_apart: true, ..empty(7) };
    assert_eq!(chosen(300, &[], &[taken, apart]), Some(start(Source::Nothing, 0, 7)));
}

#[test]
fn a_running_prompt_is_waited_for_if_that_saves_more_than_the_copy() {
    let leader = |position| Some(Leader { index: 3, position, bytes: 2 * position * BYTES });
    let wait = |position| Some(Place::Wait { leader: 3, position });
    let nothing = Some(start(Source::Nothing, 0, 0));
    let rooms = [empty(0)];
    assert_eq!(choose(600, &[], &rooms, leader(500), &PRICES), wait(500));
    assert_eq!(choose(600, &[], &rooms, leader(15), &PRICES), nothing, "a few tokens");
    let dear = Prices { byte: 1e-6, ..PRICES };
    assert_eq!(choose(600, &[], &rooms, leader(500), &dear), nothing, "a copy costs more");
    let own = idle_offer(0, 490, 490);
    assert_eq!(
        choose(600, &[own], &[idle(0, 490)], leader(500), &PRICES),
        Some(start(Source::TakeOver, 490, 0)),
        "nearly as much is there"
    );
}

#[test]
fn cells_are_saved_if_that_costs_less_than_what_they_are_worth() {
    let held = |len, chance| Held { len, bytes: len * BYTES, can_save: true, chance };
    assert!(held(500, 0.5).loss(500, &PRICES).is_saved);
    assert!(!held(20, 0.5).loss(20, &PRICES).is_saved, "too few");
    assert!(!held(500, 0.001).loss(500, &PRICES).is_saved, "hardly wanted again");
    assert!(!Held { can_save: false, ..held(500, 0.5) }.loss(500, &PRICES).is_saved);
    let fast = Prices { token: 0.00002, ..PRICES };
    assert!(!held(500, 0.5).loss(500, &fast).is_saved, "computing is faster");
    assert!(is_saved_for_later(500, 500 * BYTES, &PRICES));
    assert!(!is_saved_for_later(500, 500 * BYTES, &fast));
}

#[test]
fn a_gap_of_a_long_sequence_stays_open() {
    let closes = |len: usize, num_left, to| closes_gap(2 * len * BYTES, num_left, &to, &PRICES);
    assert!(closes(300, 1000, empty(1)));
    assert!(!closes(20_000, 1000, empty(1)), "the copy costs more than the gap");
    assert!(!closes(300, 1, empty(1)), "it is about to end");
    assert!(closes(300, 1000, idle(1, 300)));
    assert!(!closes(300, 1000, unsaved(1, 300)), "a conversation would be lost");
    assert!(closes(300, 1000, unsaved(1, 20)));
}
