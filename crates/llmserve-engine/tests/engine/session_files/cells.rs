//! The cells in a file: which are saved, which are used, and by whom.

use super::*;

#[test]
fn parked_cells_are_saved_too() {
    for memory in KINDS {
        let folder = TempDir::new();
        let path = folder.path().join("session");
        let limits = fake::limits(1, 512, KvLayout::PerSequence, 512);
        let engine = FakeEngine { limits, memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        go_on(&engine, &session, "A session that is long enough to be parked ", 30);
        collect(&engine.submit(crate::common::greedy("something else altogether", 40), None)).unwrap();
        save(&session, &path).unwrap();
        let info = inspect_session(&path).unwrap();
        assert_eq!(info.num_state_tokens as usize, session.num_tokens() - 1, "{memory:?}");
    }
}

/// Cells of a conversation that goes on from a session's tokens are not the session's.
#[test]
fn a_file_holds_nothing_of_others() {
    let saved = Saved::new();
    let text: String = saved.session.tokens().iter().map(|token| token.0 as u8 as char).collect();
    collect(&saved.engine.submit(crate::common::greedy(&format!("{text} and a secret"), 5), None)).unwrap();
    save(&saved.session, &saved.path).unwrap();
    let parts = Parts::of(&fs::read(&saved.path).unwrap());
    let secret: Vec<u8> = "secret".bytes().flat_map(|byte| i32::from(byte).to_le_bytes()).collect();
    assert!(!parts.state.windows(secret.len()).any(|window| window == secret));
    assert_eq!(parts.state.len() % 4, 0);
    assert!(parts.state.len() / 4 <= parts.tokens.len());
}

#[test]
fn a_state_of_another_layout_is_left_out_and_the_text_stays() {
    let saved = Saved::new();
    let expected = go_on(&saved.engine, &saved.session, " more", 10);
    let mut parts = Parts::of(&saved.bytes);
    parts.header["state"]["layout"] = json!("another");
    // Were it used, the fake context would compute with these tokens.
    parts.state.fill(1);
    let path = saved.folder.write("other layout", &parts.bytes());
    let engine = FakeEngine::default().start();
    let session = engine.new_session();
    load(&session, &path).unwrap();
    let output = go_on(&engine, &session, " more", 10);
    assert_eq!(output.tokens, expected.tokens);
    assert_eq!(output.finished.usage.num_cached_tokens, 0);
}

#[test]
fn a_state_that_the_context_refuses_is_dropped() {
    for memory in KINDS {
        let saved = Saved::new();
        let expected = go_on(&saved.engine, &saved.session, " more", 10);
        let mut parts = Parts::of(&saved.bytes);
        // A state of another number of tokens than the header says.
        parts.state.truncate(40);
        parts.header["state"]["num_bytes"] = json!(40);
        let path = saved.folder.write("wrong state", &parts.bytes());
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        load(&session, &path).unwrap();
        let output = go_on(&engine, &session, " more", 10);
        assert_eq!(output.tokens, expected.tokens);
        assert_eq!(output.finished.usage.num_cached_tokens, 0);
        assert_eq!(engine.stats().parked_bytes, 0, "{memory:?}");
    }
}

#[test]
fn a_state_that_does_not_fit_into_host_memory_is_left_out() {
    let saved = Saved::new();
    for parking_bytes in [0, 10] {
        let scheduler = SchedulerConfig { parking_bytes, ..SchedulerConfig::default() };
        let engine = FakeEngine { scheduler, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        load(&session, &saved.path).unwrap();
        let output = go_on(&engine, &session, " more", 10);
        assert_eq!(output.finished.usage.num_cached_tokens, 0);
        assert_eq!(engine.stats().parked_bytes, 0);
    }
}

#[test]
fn loaded_cells_wait_for_their_session() {
    for memory in KINDS {
        let setup = FakeEngine {
            memory,
            limits: fake::limits(1, 512, KvLayout::PerSequence, 512),
            // Room for about three states of the requests below.
            scheduler: SchedulerConfig { parking_bytes: 1000, ..SchedulerConfig::default() },
            ..FakeEngine::default()
        };
        let engine = setup.start();
        let session = engine.new_session();
        go_on(&engine, &session, "Once upon a time ", 20);
        let folder = TempDir::new();
        let path = folder.path().join("session");
        save(&session, &path).unwrap();
        let engine = setup.start();
        let session = engine.new_session();
        load(&session, &path).unwrap();
        for index in 0..20 {
            let prompt = format!("Number {index}: {}", "and so on ".repeat(5));
            collect(&engine.submit(crate::common::greedy(&prompt, 5), None)).unwrap();
            // One that begins like the session uses the cells and leaves them.
            collect(&engine.submit(crate::common::greedy("Once upon a time in", 5), None)).unwrap();
        }
        let before = session.num_tokens();
        let output = go_on(&engine, &session, "there was ", 5);
        assert_eq!(output.finished.usage.num_cached_tokens, before - 1, "{memory:?}");
    }
}

/// Nobody knows whether the cells in a file are of its tokens: whoever wrote it alone has the trouble.
#[test]
fn cells_out_of_a_file_are_for_their_session_only() {
    for memory in KINDS {
        let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
        let session = engine.new_session();
        go_on(&engine, &session, "Once upon a time ", 20);
        let folder = TempDir::new();
        let path = folder.path().join("session");
        save(&session, &path).unwrap();

        // Before its session has used them, and after, when they are in a slot.
        for is_used in [false, true] {
            let engine = FakeEngine { memory, ..FakeEngine::default() }.start();
            let session = engine.new_session();
            load(&session, &path).unwrap();
            let go_on = || {
                let before = session.num_tokens();
                let output = go_on(&engine, &session, "there was ", 5);
                // The last one has no cell in the file; the visitor may have left one.
                assert!(output.finished.usage.num_cached_tokens + 1 >= before, "{memory:?}");
            };
            if is_used {
                go_on();
            }
            let tokens = [session.tokens(), vec![TokenId(97)]].concat();
            let visitor =
                collect(&engine.submit(crate::common::request(RequestParts::tokens(tokens, 1)), None))
                    .unwrap();
            assert_eq!(visitor.finished.usage.num_cached_tokens, 0, "{memory:?} {is_used}");
            go_on();
            save(&session, &path).unwrap();
            let info = inspect_session(&path).unwrap();
            assert_eq!(info.num_state_tokens, info.num_tokens - 1, "{memory:?}");
        }
    }
}

#[test]
fn a_file_that_is_loaded_again_and_again_is_kept_once() {
    let saved = Saved::new();
    let engine = FakeEngine::default().start();
    let sessions: Vec<Session> = (0..5).map(|_| engine.new_session()).collect();
    for session in sessions.iter().cycle().take(50) {
        load(session, &saved.path).unwrap();
    }
    let output = go_on(&engine, &sessions[0], " more", 5);
    assert_eq!(output.finished.usage.num_cached_tokens, saved.session.num_tokens() - 1);
    assert_eq!(engine.stats().parked_bytes, Parts::of(&saved.bytes).state.len());
}
