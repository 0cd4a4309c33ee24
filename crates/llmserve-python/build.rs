//! Compiles the check for the CPU that everything else is compiled for.

use std::env;

/// Rust's names of what the code may be compiled for, and those of the C compilers.
const FEATURES: [(&str, &str); 19] = [
    ("popcnt", "popcnt"),
    ("sse4.2", "sse4.2"),
    ("avx", "avx"),
    ("fma", "fma"),
    ("bmi1", "bmi"),
    ("bmi2", "bmi2"),
    ("avx2", "avx2"),
    ("avx512f", "avx512f"),
    ("avx512bw", "avx512bw"),
    ("avx512cd", "avx512cd"),
    ("avx512dq", "avx512dq"),
    ("avx512vl", "avx512vl"),
    ("avx512ifma", "avx512ifma"),
    ("avx512vbmi", "avx512vbmi"),
    ("avx512vbmi2", "avx512vbmi2"),
    ("avx512vnni", "avx512vnni"),
    ("avx512bitalg", "avx512bitalg"),
    ("avx512vpopcntdq", "avx512vpopcntdq"),
    ("avx512bf16", "avx512bf16"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/built_for.c");
    let enabled = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_enabled = |feature: &str| enabled.split(',').any(|name| name == feature);
    let is_x86 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let checks: Vec<String> = FEATURES
        .iter()
        .filter(|(rust, _)| is_x86 && is_enabled(rust))
        .map(|(_, c)| format!("REQUIRE(\"{c}\")"))
        .collect();
    cc::Build::new()
        .warnings(true)
        .define("REQUIREMENTS", &*checks.join(" "))
        .file("src/built_for.c")
        .compile("built_for");
}
