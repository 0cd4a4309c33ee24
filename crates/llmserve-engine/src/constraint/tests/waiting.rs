//! What waits: requests for a compilation, and constraints for their turn.

use std::cell::Cell;

use super::*;

#[test]
fn who_stops_waits_for_no_compilation() {
    let compiler = compiler();
    let spec = json(r#"{"type":"string","pattern":"^[a-c]{1,3}$"}"#);
    assert_eq!(compiler.compile(&spec, &|| true).err(), Some(Error::ShutDown));
    // Whoever comes later is not told that somebody had stopped.
    let num_asked = Cell::new(0);
    let keeps_waiting = || {
        num_asked.set(num_asked.get() + 1);
        false
    };
    assert!(compiler.compile(&spec, &keeps_waiting).is_ok());
    assert!(compiler.compile(&spec, &|| true).is_ok(), "a grammar that is there needs no waiting");
}

#[test]
fn constraints_that_wait_take_no_memory_of_their_own() {
    let compiler = compiler();
    let grammar =
        compiler.compile(&json(r#"{"type":"array","items":{"type":"number"}}"#), &|| false).unwrap();
    let before = compiler.num_bytes();
    assert!(before > 0);
    let mut waiting: Vec<_> = (0..50).map(|_| Constraint::new(Arc::clone(&grammar), 100).unwrap()).collect();
    assert!(waiting.iter_mut().all(|constraint| !constraint.is_complete()));
    assert_eq!(compiler.num_bytes(), before);
    waiting[0].mask().unwrap();
    assert!(compiler.num_bytes() > before);
    drop(waiting);
    assert_eq!(compiler.num_bytes(), before);
}
