//! Files that are not models, split models, adapters, and overridden metadata.

use std::fs;
use std::path::PathBuf;

use llmserve_engine::LoadErrorReason::{
    self, Damaged, InvalidOption, MissingPart, NotFound, NotGguf, NotReadable, Truncated, Unsupported,
    WrongPart,
};
use llmserve_engine::MetadataValue;
use llmserve_engine::gguf::{check, check_adapter};

use crate::support::gguf_writer::{Gguf, Meta, text};
use crate::support::temp_dir::TempDir;

#[test]
fn a_file_that_is_not_gguf_is_refused_with_its_kind() {
    let directory = TempDir::new();
    let cases: [(&[u8], LoadErrorReason, &str); 6] = [
        (b"", Truncated, "empty"),
        (b"GGU", Truncated, "3 bytes"),
        (b"Once upon a time there was a model.\n", NotGguf, "text file"),
        (b"version https://git-lfs.github.com/spec/v1\n", NotGguf, "Git LFS"),
        (b"\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", NotGguf, "safetensors"),
        (b"\0\x01\x02\x03\x04", NotGguf, "starts with"),
    ];
    for (bytes, reason, words) in cases {
        let error = check(&directory.write("model.gguf", bytes)).unwrap_err();
        assert_eq!(error.reason, reason, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    assert_eq!(check(directory.path()).unwrap_err().reason, NotReadable);
    assert_eq!(check(&directory.path().join("missing.gguf")).unwrap_err().reason, NotFound);
    let below_a_file = directory.write("file", b"x").join("model.gguf");
    assert_eq!(check(&below_a_file).unwrap_err().reason, NotFound);
}

#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_told_so() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new();
    let pipe = directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(check(&pipe).unwrap_err().reason, NotReadable);
    let locked = directory.write("locked.gguf", &Gguf::model().write().bytes);
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read it all the same.
    match fs::File::open(&locked) {
        Ok(_) => assert!(check(&locked).is_ok()),
        Err(_) => assert_eq!(check(&locked).unwrap_err().reason, NotReadable),
    }
}

/// The sound model in two parts, by number from 0.
fn part(number: u16) -> Gguf {
    let mut part = Gguf::model();
    if number == 1 {
        part.pairs.clear();
        part.tensors.drain(..3);
    } else {
        part.tensors.truncate(3);
    }
    part.with("split.no", Meta::U16(number))
        .with("split.count", Meta::U16(2))
        .with("split.tensors.count", Meta::I32(5))
}

fn write_parts(directory: &TempDir, first: &Gguf, second: &Gguf) -> PathBuf {
    directory.write("m-00002-of-00002.gguf", &second.write().bytes);
    directory.write("m-00001-of-00002.gguf", &first.write().bytes)
}

#[test]
fn a_split_model_is_checked_whole() {
    let directory = TempDir::new();
    let path = write_parts(&directory, &part(0), &part(1));
    let model = check(&path).unwrap();
    let whole = check(&directory.write("whole.gguf", &Gguf::model().write().bytes)).unwrap();
    assert_eq!(model.parts.len(), 2);
    assert_eq!(model.num_tensors(), whole.num_tensors());
    assert_eq!(model.tensor_bytes(), whole.tensor_bytes());
    assert_eq!(model.path(), path);

    let second = check(&directory.path().join("m-00002-of-00002.gguf")).unwrap_err();
    assert_eq!(second.reason, WrongPart);
    assert!(second.message.starts_with("this is part 2 of 2"), "{second}");
    let renamed = directory.write("renamed.gguf", &part(0).write().bytes);
    assert_eq!(check(&renamed).unwrap_err().reason, WrongPart);
    fs::remove_file(directory.path().join("m-00002-of-00002.gguf")).unwrap();
    let missing = check(&path).unwrap_err();
    assert_eq!(missing.reason, MissingPart);
    assert_eq!(missing.message, "part 2 of 2: there is no such file");
}

#[test]
fn parts_of_other_models_are_refused() {
    let directory = TempDir::new();
    let mut cut = part(1).write().bytes;
    cut.truncate(cut.len() - 64);
    let path = write_parts(&directory, &part(0), &part(1));
    fs::write(directory.path().join("m-00002-of-00002.gguf"), cut).unwrap();
    assert_eq!(check(&path).unwrap_err().reason, Truncated);

    let mut repeated = part(1);
    repeated.tensors[0].name = "token_embd.weight".to_owned();
    let mut fewer = part(1);
    fewer.tensors.pop();
    let others = [
        (part(0), "says that it is part 1"),
        (part(1).with("split.count", Meta::U16(3)), "split.count"),
        (part(1).with("general.architecture", text("qwen2")), "general.architecture"),
        (repeated, "also in an earlier part"),
        (fewer, "contain 4 tensors"),
    ];
    for (second, words) in others {
        let path = write_parts(&directory, &part(0), &second);
        let error = check(&path).unwrap_err();
        assert_eq!(error.reason, WrongPart, "{error}");
        assert!(error.message.contains(words), "{error}");
    }
    let no_number = part(1).without("split.no");
    assert_eq!(check(&write_parts(&directory, &part(0), &no_number)).unwrap_err().reason, Damaged);
}

#[test]
fn overrides_are_checked_with_the_metadata() {
    let directory = TempDir::new();
    let model = check(&directory.write("model.gguf", &Gguf::model().write().bytes)).unwrap();
    let overridden = |key: &str, value| model.clone().with_overrides(&[(key.to_owned(), value)]).map(drop);
    assert_eq!(overridden("llama.context_length", MetadataValue::Int(128)), Ok(()));
    assert_eq!(overridden("tokenizer.ggml.add_eos_token", MetadataValue::Bool(true)), Ok(()));
    for (key, value) in [
        ("llama.context_length", MetadataValue::Int(-1)),
        ("llama.attention.layer_norm_rms_epsilon", MetadataValue::Float(-0.5)),
        ("tokenizer.ggml.eos_token_id", MetadataValue::Int(5)),
        ("llama.rope.freq_base", MetadataValue::Float(f64::NAN)),
    ] {
        assert_eq!(overridden(key, value).unwrap_err().reason, InvalidOption, "{key}");
    }
}

#[test]
fn adapters_are_checked_as_such() {
    let directory = TempDir::new();
    let adapter = || {
        Gguf::model()
            .with("general.type", text("adapter"))
            .with("adapter.type", text("lora"))
            .with("adapter.lora.alpha", Meta::F32(16.0))
    };
    let adapter_reason = |file: Gguf| {
        check_adapter(&directory.write("adapter.gguf", &file.write().bytes)).map(drop).map_err(|e| e.reason)
    };
    assert_eq!(adapter_reason(adapter()), Ok(()));
    assert_eq!(adapter_reason(Gguf::model()), Err(Unsupported));
}
