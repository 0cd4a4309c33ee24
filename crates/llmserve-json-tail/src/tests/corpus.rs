//! Schemas of all kinds, one a line.

/// Schemas that llguidance compiles; each is walked at random.
pub(super) const SCHEMAS: &str = include_str!("corpus.jsonl");

/// The schemas, parsed.
pub(super) fn schemas() -> Vec<serde_json::Value> {
    let lines = SCHEMAS.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}
