//! What a file says: headers, and files that are damaged, foreign or impossible.

use super::*;

#[test]
fn the_header_tells_of_the_session_without_its_model() {
    let saved = Saved::new();
    let info = inspect_session(&saved.path).unwrap();
    assert_eq!(info.version, 1);
    assert_eq!(info.writer, concat!("llmserve ", env!("CARGO_PKG_VERSION")));
    assert_eq!(info.num_tokens as usize, saved.session.num_tokens());
    assert_eq!(info.description, "fake");
    assert_eq!(info.file_bytes as usize, saved.bytes.len());
    assert!(info.is_templated);
    assert_eq!(info.num_state_tokens, info.num_tokens - 1);
    // The format is the documented one.
    assert_eq!(sealed(saved.bytes[..saved.bytes.len() - CHECKSUM_BYTES].to_vec()), saved.bytes);
    let tokens: Vec<i32> = saved.session.tokens().iter().map(|token| token.0).collect();
    assert_eq!(Parts::of(&saved.bytes).tokens, tokens);
}

#[test]
fn every_truncation_is_refused() {
    let saved = Saved::new();
    for len in 0..saved.bytes.len() {
        let code = saved.refused(&saved.bytes[..len]);
        assert_eq!(code, if len == 0 { "not_a_session" } else { "damaged" }, "{len} bytes");
    }
    assert_eq!(saved.refused(&[saved.bytes.as_slice(), b"x"].concat()), "damaged");
}

#[test]
fn every_flipped_bit_is_refused() {
    let saved = Saved::new();
    for index in 0..saved.bytes.len() {
        for bit in [0, 3, 7] {
            let mut bytes = saved.bytes.clone();
            bytes[index] ^= 1 << bit;
            let expected = match index {
                0..8 => "not_a_session",
                8..12 => "wrong_version",
                _ => "damaged",
            };
            assert_eq!(saved.refused(&bytes), expected, "byte {index}, bit {bit}");
        }
    }
}

#[test]
fn foreign_and_impossible_files_are_refused_by_name() {
    let saved = Saved::new();
    assert_eq!(
        saved.refused(b"just a text file, of some length, that is not a session at all"),
        "not_a_session"
    );
    assert_eq!(saved.refused(&[0; 1000]), "not_a_session");
    assert_eq!(
        saved.refused_parts(|parts| parts.header["model"]["fingerprint"] = json!("ab")),
        "other_model"
    );
    assert_eq!(saved.refused_parts(|parts| parts.tokens[3] = 258), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.tokens[3] = -1), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["num_tokens"] = json!(1)), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["state"]["num_bytes"] = json!(1)), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["state"]["num_tokens"] = json!(10_000)), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header = json!({})), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header = json!([[[[]]]])), "damaged");
    assert_eq!(saved.refused_parts(|parts| parts.header["num_tokens"] = json!(-1)), "damaged");
    let long = |parts: &mut Parts| {
        parts.tokens = vec![5; 513];
        parts.header["num_tokens"] = json!(513);
    };
    assert_eq!(saved.refused_parts(long), "too_long");
    // Told only where the file is whole.
    let mut other = Parts::of(&saved.bytes);
    other.header["model"]["fingerprint"] = json!("ab");
    let mut bytes = other.bytes();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    assert_eq!(saved.refused(&bytes), "damaged");
}

#[test]
fn nothing_is_allocated_that_the_file_does_not_have() {
    let saved = Saved::new();
    let refused = |bytes: &[u8]| {
        let path = saved.folder.write("impossible", bytes);
        // The same code reads for a load, on a thread of its own that is not counted.
        let (result, peak) = peak_during(|| inspect_session(&path));
        assert_eq!(reason(result), "damaged");
        assert!(peak < 4 << 20, "{peak} bytes");
        assert_eq!(saved.refused(bytes), "damaged");
    };
    for count in [1_u64 << 31, 1 << 40, 1 << 62, u64::MAX] {
        let mut parts = Parts::of(&saved.bytes);
        parts.header["num_tokens"] = json!(count);
        refused(&parts.bytes());
        let mut parts = Parts::of(&saved.bytes);
        parts.header["state"]["num_bytes"] = json!(count);
        refused(&parts.bytes());
    }
    let mut header = b"\x93LLMSV\r\n\x01\0\0\0".to_vec();
    header.extend(u32::MAX.to_le_bytes());
    header.extend([0; 100]);
    refused(&sealed(header));
}
