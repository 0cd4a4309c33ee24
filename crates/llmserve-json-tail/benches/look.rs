//! What it costs to follow a document of 50 KB, and to look how it could end.

use std::fmt::Write as _;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use llmserve_json_tail::{Normal, Objects, Outline, Walk};
use serde_json::json;

fn records(num_bytes: usize) -> String {
    let mut text = "[".to_owned();
    for i in 0.. {
        if text.len() >= num_bytes {
            break;
        }
        let _ok = write!(text, r#"{{"name":"some name {i}","n":{i}}},"#);
    }
    text + r#"{"name":"begun"#
}

fn benches(criterion: &mut Criterion) {
    let schema = json!({"type": "array", "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["name", "n"],
    }});
    let Ok(normal) = Normal::new(&schema, Objects::Closed) else { return };
    let Ok(outline) = Outline::compile(&normal).map(Arc::new) else { return };
    for num_bytes in [1_000, 50_000] {
        let text = records(num_bytes);
        let mut walk = Walk::new(Arc::clone(&outline));
        walk.feed(text.as_bytes());
        criterion.bench_function(&format!("look/{num_bytes} bytes"), |bencher| {
            bencher.iter(|| walk.closings());
        });
        criterion.bench_function(&format!("token/{num_bytes} bytes"), |bencher| {
            bencher.iter(|| {
                walk.feed(b"word");
                walk.rollback(1);
            });
        });
    }
}

criterion_group!(group, benches);
criterion_main!(group);
