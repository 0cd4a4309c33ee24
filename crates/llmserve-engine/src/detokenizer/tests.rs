//! The detokenizer against a search of the whole text, and its rules one by one.

use proptest::prelude::*;

use super::*;

fn strings(stops: &[&str]) -> Vec<String> {
    stops.iter().map(ToString::to_string).collect()
}

/// Every text that was released and how it ended: `Err` with the rest, or `Ok` with the stop.
fn run(stops: &[String], pieces: &[Vec<u8>]) -> (Vec<String>, Result<usize, String>) {
    run_after(&[], stops, pieces)
}

fn run_after(begun: &[u8], stops: &[String], pieces: &[Vec<u8>]) -> (Vec<String>, Result<usize, String>) {
    let mut detokenizer = Detokenizer::after(begun, stops);
    let mut texts = Vec::new();
    for piece in pieces {
        let released = detokenizer.push(piece);
        texts.push(released.text);
        if let Some(stop) = released.stop {
            assert_eq!(detokenizer.push(b"more"), Released::default());
            assert_eq!(detokenizer.finish(), "");
            return (texts, Ok(stop));
        }
    }
    (texts, Err(detokenizer.finish()))
}

fn run_text(stops: &[&str], pieces: &[&str]) -> (Vec<String>, Result<usize, String>) {
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.as_bytes().to_vec()).collect();
    run(&strings(stops), &pieces)
}

fn expect(texts: &[&str], end: Result<usize, &str>) -> (Vec<String>, Result<usize, String>) {
    (strings(texts), end.map_err(str::to_string))
}

#[test]
fn without_stop_strings_text_flows() {
    assert_eq!(run_text(&[], &["Hello", "", " world"]), expect(&["Hello", "", " world"], Err("")));
}

#[test]
fn a_stop_string_over_several_tokens() {
    let stop = ["four five"];
    assert_eq!(
        run_text(&stop, &["three ", "fo", "ur", " fi", "ve six"]),
        expect(&["three ", "", "", "", ""], Ok(0))
    );
    assert_eq!(run_text(&stop, &["three four", " six"]), expect(&["three ", "four six"], Err("")));
}

#[test]
fn a_stop_string_inside_a_token() {
    assert_eq!(run_text(&["\n"], &["one\ntwo\n"]), expect(&["one"], Ok(0)));
    assert_eq!(run_text(&["ab", "b"], &["xaby"]), expect(&["x"], Ok(0)));
}

#[test]
fn a_held_tail_comes_at_the_end() {
    assert_eq!(
        run_text(&["GAMMA and more"], &["ALPHA BETA", " GAM", "MA"]),
        expect(&["ALPHA BETA", " ", ""], Err("GAMMA"))
    );
}

#[test]
fn text_is_released_as_soon_as_it_cannot_be_a_stop_string() {
    assert_eq!(run_text(&["aab"], &["a", "a", "a", "c"]), expect(&["", "", "a", "aac"], Err("")));
    assert_eq!(run_text(&["abcx", "bcd"], &["abc", "d"]), expect(&["", "a"], Ok(1)));
}

#[test]
fn characters_are_whole_in_stop_strings_too() {
    let pieces = ["é".as_bytes(), &[0xE2, 0x82], &[0xAC], "\u{10348}".as_bytes()].map(<[u8]>::to_vec);
    assert_eq!(run(&strings(&["€\u{10348}"]), &pieces), expect(&["é", "", "", ""], Ok(0)));
    assert_eq!(run(&strings(&["€!"]), &pieces), expect(&["é", "", "", "€\u{10348}"], Err("")));
    assert_eq!(run(&[], &pieces[..2]), expect(&["é", ""], Err("\u{FFFD}")));
}

#[test]
fn text_from_before_comes_with_the_first_token() {
    let pieces = [b"c".to_vec(), b"d".to_vec()];
    assert_eq!(run_after(b"ab", &[], &pieces), expect(&["abc", "d"], Err("")));
    assert_eq!(run_after(b"ab", &strings(&["bcx"]), &pieces), expect(&["a", "bcd"], Err("")));
    assert_eq!(run_after(b"ab", &strings(&["bcd"]), &pieces), expect(&["a", ""], Ok(0)));
    assert_eq!(run_after(b"ab", &strings(&["b"]), &pieces), expect(&["a"], Ok(0)));
    assert_eq!(run_after(&[0xE2, 0x82], &strings(&["€"]), &[vec![0xAC]]), expect(&[""], Ok(0)));
    assert_eq!(run_after(b"ab", &strings(&["b"]), &[]), expect(&[], Err("ab")));
}

/// Tokens of a small alphabet, with pieces of characters and ill-formed bytes.
fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop::sample::select(b"aaabbbcc\xC3\xA9\xE2\x82\xAC\xFF".to_vec());
    prop::collection::vec(prop::collection::vec(byte, 0..5), 0..24)
}

fn stops() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[abcé€\u{FFFD}]{1,5}", 0..5)
}

/// The text before the stop string that ends first, and its index; by trying every end.
fn reference(stops: &[String], text: &str) -> Option<(String, usize)> {
    (0..=text.len()).filter(|&end| text.is_char_boundary(end)).find_map(|end| {
        let ends_here = |stop: &&String| text[..end].ends_with(stop.as_str());
        let longest = stops.iter().filter(ends_here).map(String::len).max()?;
        let index = stops.iter().position(|stop| stop.len() == longest && ends_here(&stop))?;
        Some((text[..end - longest].to_string(), index))
    })
}

proptest! {
    #[test]
    fn equals_a_search_of_the_whole_text(stops in stops(), pieces in pieces()) {
        // A replacement that only the end brings completes no stop string.
        let mut decoder = Utf8Decoder::default();
        let mut text = String::new();
        decoder.decode(&pieces.concat(), &mut text);
        let (texts, end) = run(&stops, &pieces);
        match (reference(&stops, &text), end) {
            (Some((before, index)), Ok(stop)) => {
                prop_assert_eq!(texts.concat(), before);
                prop_assert_eq!(stop, index);
            }
            (None, Err(rest)) => {
                let all = pieces.concat();
                prop_assert_eq!(texts.concat() + &rest, String::from_utf8_lossy(&all));
            }
            (expected, end) => prop_assert!(false, "{:?} {:?}", expected, end),
        }
    }

    #[test]
    fn text_from_before_is_as_good_as_a_token(stops in stops(), pieces in pieces()) {
        if let [first, rest @ ..] = &pieces[..] && !rest.is_empty() {
            let (texts, end) = run_after(first, &stops, rest);
            let (expected, expected_end) = run(&stops, &pieces);
            prop_assert_eq!(texts.concat(), expected.concat());
            prop_assert_eq!(end, expected_end);
        }
    }

    #[test]
    fn holds_back_no_more_than_it_must(stops in stops(), pieces in pieces()) {
        let mut detokenizer = Detokenizer::new(&stops);
        let (mut decoder, mut text, mut released) = (Utf8Decoder::default(), String::new(), String::new());
        for piece in &pieces {
            decoder.decode(piece, &mut text);
            let Released { text: new, stop } = detokenizer.push(piece);
            released += &new;
            if stop.is_some() {
                break;
            }
            let held = (0..=text.len())
                .filter(|&start| text.is_char_boundary(start))
                .find(|&start| start == text.len() || stops.iter().any(|stop| stop.starts_with(&text[start..])))
                .unwrap_or(0);
            prop_assert_eq!(&released, &text[..held]);
        }
    }
}
