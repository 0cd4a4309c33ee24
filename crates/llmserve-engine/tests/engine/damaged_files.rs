//! Several thousand damaged variants of a small model: each is refused with its reason, none
//! panics, and none makes the check take more memory than its limits allow.

use std::fs;
use std::path::{Path, PathBuf};

use llmserve_engine::LoadErrorReason::{
    self, Damaged, InvalidOption, NotGguf, Truncated, Unsupported, UnsupportedVersion,
};
use llmserve_engine::gguf::{bytes_per_token, check};
use llmserve_engine::{KvType, LoadError};

use crate::support::allocation::peak_during;
use crate::support::gguf_writer::{Field, Gguf, Meta, Tensor, text};
use crate::support::temp_dir::TempDir;

/// Checks a file with these bytes.
fn checked(directory: &TempDir, bytes: &[u8]) -> Result<(), LoadError> {
    check(&directory.write("model.gguf", bytes)).map(drop)
}

fn reason(directory: &TempDir, bytes: &[u8]) -> LoadErrorReason {
    checked(directory, bytes).expect_err("a damaged file passed").reason
}

#[test]
fn the_sound_model_passes() {
    let directory = TempDir::new();
    let image = Gguf::model().write();
    let model = check(&directory.write("model.gguf", &image.bytes)).unwrap();
    assert_eq!(model.num_tensors(), 5);
    assert_eq!(model.tensor_bytes(), 32 * 5 * 4 + 32 * 4 + 32 * 18 + 64 * 18 + 32 * 4);
    assert_eq!(model.metadata.architecture(), Some("llama"));
    assert_eq!(model.metadata.integer("test.i16"), Some(-1));
    assert_eq!(model.identity()[0].size, image.bytes.len() as u64);
    assert_eq!(bytes_per_token(&model, KvType::F16, KvType::F16), Some(16 * 2 * 2));
}

#[test]
fn a_file_cut_anywhere_is_truncated() {
    let directory = TempDir::new();
    let image = Gguf::model().write();
    let path = directory.write("model.gguf", &image.bytes);
    let file = fs::File::options().write(true).open(&path).unwrap();
    for length in (0..image.data_end).rev() {
        file.set_len(length as u64).unwrap();
        let error = check(&path).expect_err("a cut file passed");
        assert_eq!(error.reason, Truncated, "cut at byte {length}: {error}");
        assert!(!error.message.contains('/'), "{error}");
    }
    // The padding behind the last tensor is nobody's data.
    assert_eq!(checked(&directory, &image.bytes[..image.data_end]), Ok(()));
}

/// What overwriting a field with `value` may give; `None` where the file stays possible.
fn expected(field: Field, value: u64, width: usize) -> Option<&'static [LoadErrorReason]> {
    let is_max = value == u64::MAX || (width == 4 && value == u64::from(u32::MAX));
    Some(match (field, value) {
        (Field::Magic, _) => &[NotGguf],
        (Field::Version, _) => &[UnsupportedVersion],
        // The first tensor alone: the rest of the file is taken for its data.
        (Field::TensorCount, 1) => return None,
        (Field::TensorType, _) if is_max => &[Unsupported],
        (Field::KeyLength | Field::TextLength | Field::NameLength, HUGE) => &[Truncated],
        (Field::TensorCount | Field::PairCount | Field::Offset, _)
        | (Field::KeyLength | Field::NameLength | Field::Dimension, 0) => &[Damaged],
        _ if is_max => &[Damaged],
        // The fields behind are read from the wrong place.
        _ => &[Damaged, Truncated, Unsupported],
    })
}

/// Far beyond the file, within llama.cpp's limit of a text.
const HUGE: u64 = 1 << 29;

#[test]
fn an_overwritten_field_is_noticed() {
    let directory = TempDir::new();
    let image = Gguf::model().write();
    let mut num_variants = 0;
    for &(field, start, width) in &image.fields {
        for value in [0, 1, HUGE, 1 << 40, u64::MAX / 2, u64::MAX] {
            let mut bytes = image.bytes.clone();
            let new = &value.to_le_bytes()[..width];
            bytes[start..start + width].copy_from_slice(new);
            if bytes == image.bytes || (width == 4 && value == 1 << 40) {
                continue;
            }
            let value = if width == 4 { value & u64::from(u32::MAX) } else { value };
            num_variants += 1;
            check_overwritten(&directory, &bytes, (field, value, width));
        }
    }
    assert!(num_variants > 500, "{num_variants} variants");
}

fn check_overwritten(directory: &TempDir, bytes: &[u8], (field, value, width): (Field, u64, usize)) {
    let outcome = checked(directory, bytes).map_err(|error| error.reason);
    match (expected(field, value, width), outcome) {
        (None, outcome) => assert_eq!(outcome, Ok(()), "{field:?} = {value}"),
        // Another type of a key that nobody looks at, or a smaller last tensor.
        (Some(_), Ok(())) => {
            let harmless =
                matches!(field, Field::ValueType | Field::ElementType | Field::Dimension | Field::TensorType);
            assert!(harmless && value <= 1, "{field:?} = {value} passed");
        }
        (Some(reasons), Err(reason)) => {
            assert!(reasons.contains(&reason), "{field:?} = {value} gave {reason:?}, not {reasons:?}");
        }
    }
}

/// What llama.cpp refuses by itself is tested with the probe (`tests/test_api_damaged.py`).
#[test]
fn contradictions_are_refused_by_name() {
    let model = Gguf::model;
    let cases: Vec<(Gguf, LoadErrorReason, &str)> = vec![
        (model().without("general.architecture"), Damaged, "general.architecture"),
        (model().with("general.architecture", Meta::U32(1)), Damaged, "general.architecture"),
        (model().with("general.alignment", Meta::U32(0)), Damaged, "general.alignment` is 0"),
        (model().with("general.alignment", Meta::U32(24)), Damaged, "is 24, but must be a power of two"),
        (model().with("general.alignment", Meta::U64(32)), Damaged, "type u64, but must be u32"),
        (model().with("general.alignment", Meta::U32(256)), Damaged, ", expected "),
        (model().with("test.nested", Meta::Nested), Unsupported, "array of arrays"),
        (model().with("llama.context_length", Meta::U32(0)), Damaged, "context_length` is 0"),
        (model().with("llama.rope.dimension_count", Meta::U32(7)), Damaged, "is 7, but must be even"),
        (model().with("llama.attention.layer_norm_rms_epsilon", Meta::F32(-1.0)), Damaged, "is -1"),
        (model().with("tokenizer.ggml.bos_token_id", Meta::U32(5)), Damaged, "has 5 tokens"),
        (model().with("general.type", text("adapter")), InvalidOption, "LoRA adapter"),
        (model().with("general.type", text("mmproj")), Unsupported, "mmproj"),
        (model().with("general.architecture", text("clip")), Unsupported, "clip"),
        (model().with("split.count", Meta::U32(2)), Damaged, "must be u16"),
    ];
    let directory = TempDir::new();
    for (file, reason, words) in cases {
        let error = checked(&directory, &file.write().bytes).expect_err(words);
        assert_eq!(error.reason, reason, "{error}");
        assert!(error.message.contains(words), "`{}` lacks `{words}`", error.message);
    }
}

#[test]
fn doubled_and_ill_named_entries_are_damage() {
    let directory = TempDir::new();
    let mut doubled = Gguf::model();
    doubled.pairs.push(("test.u8".to_owned(), Meta::U8(1)));
    assert_eq!(reason(&directory, &doubled.write().bytes), Damaged);
    for (index, name) in [(1, "token_embd.weight"), (0, &*"x".repeat(64)), (0, ""), (0, "a\0b")] {
        let mut file = Gguf::model();
        file.tensors[index].name = name.to_owned();
        assert_eq!(reason(&directory, &file.write().bytes), Damaged, "{name:?}");
    }
    for key in ["", "a\0b", &"k".repeat(65_536)] {
        let file = Gguf::model().with(key, Meta::U8(1));
        assert_eq!(reason(&directory, &file.write().bytes), Damaged, "{key:.10?}");
    }
}

/// llama.cpp loads these and ends the process at the first token.
#[test]
fn tensor_types_that_cannot_be_computed_are_unsupported() {
    let directory = TempDir::new();
    for (index, kind, words) in [(1, 1, "type f16, but must be f32"), (2, 26, "type i32, which weights")] {
        let mut file = Gguf::model();
        file.tensors[index].kind = kind;
        let error = checked(&directory, &file.write().bytes).unwrap_err();
        assert_eq!(error.reason, Unsupported, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn unaligned_data_that_no_mapping_can_hold_is_unsupported() {
    let directory = TempDir::new();
    let mut file = Gguf::model().with("general.alignment", Meta::U32(8));
    file.alignment = 8;
    file.tensors.push(Tensor::new("small", &[2], 0));
    file.tensors.push(Tensor::new("behind", &[32], 0));
    let error = checked(&directory, &file.write().bytes).unwrap_err();
    assert_eq!(error.reason, Unsupported, "{error}");
    assert!(error.message.contains("a multiple of 32"), "{error}");
}

#[test]
fn random_damage_neither_panics_nor_takes_memory() {
    let directory = TempDir::new();
    let image = Gguf::model().write();
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let (mut refused, mut passed) = (0, 0);
    for _ in 0..4000 {
        let mut bytes = image.bytes.clone();
        for _ in 0..=random.below(3) {
            let place = random.below(bytes.len());
            bytes[place] ^= 1 << random.below(8);
        }
        let path = directory.write("model.gguf", &bytes);
        let (outcome, peak) = peak_during(|| check(&path));
        assert!(peak < 1 << 20, "{peak} bytes were taken for a file of {}", bytes.len());
        match outcome {
            Ok(model) => {
                assert!(model.tensor_bytes() <= bytes.len() as u64);
                passed += 1;
            }
            Err(error) => {
                assert!(!error.message.is_empty() && error.message.len() < 1000);
                refused += 1;
            }
        }
    }
    // Over half of the file is tensor data, which any bits may fill.
    assert!(refused > 500 && passed > 500, "{refused} refused, {passed} passed");
}

struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

/// The default model, or the one that the environment names.
fn real_model() -> Option<PathBuf> {
    let named = std::env::var_os("LLMSERVE_TEST_MODEL").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let default = home.map(|home| home.join(".cache/llmserve/models/SmolLM2-135M-Instruct.Q4_1.gguf"));
    named.or(default).filter(|path| path.is_file())
}

#[test]
fn a_real_model_passes_and_its_cuts_do_not() {
    let Some(path) = real_model() else {
        eprintln!(
            "skipped: no model in LLMSERVE_TEST_MODEL or ~/.cache/llmserve/models (llmserve pull gets it)"
        );
        return;
    };
    let start = std::time::Instant::now();
    let model = check(&path).unwrap();
    eprintln!("checked {} tensors in {:.2?}", model.num_tensors(), start.elapsed());
    if path.ends_with("SmolLM2-135M-Instruct.Q4_1.gguf") {
        assert_eq!(model.num_tensors(), 272);
        assert_eq!(bytes_per_token(&model, KvType::F16, KvType::F16), Some(30 * 2 * 3 * 64 * 2));
    }
    check_cuts(&path);
}

/// Cuts of a sparse copy: it has the header's bytes and the size, which is all that is read.
fn check_cuts(path: &Path) {
    const HEADER: usize = 4 << 20;
    let bytes = fs::read(path).unwrap();
    let directory = TempDir::new();
    let header = bytes.len().min(HEADER);
    for length in [bytes.len() - 4096, bytes.len() / 2, 2 << 20, 1 << 20, 1024, 24, 4, 0] {
        let copy = directory.write("cut.gguf", &bytes[..header.min(length)]);
        fs::File::options().write(true).open(&copy).unwrap().set_len(length as u64).unwrap();
        assert_eq!(check(&copy).unwrap_err().reason, Truncated, "cut at byte {length}");
    }
}
