//! Compiles the C++ shim of the model module.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(own_threads)");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").warnings(true).file("shim/llmserve_shim.cpp");
    if env::var_os("CARGO_FEATURE_PORTABLE").is_some() {
        build.define("LLMSERVE_PORTABLE", None);
    }
    if has_own_threads(&build) {
        build.file("shim/llmserve_threads.cpp");
        println!("cargo:rustc-cfg=own_threads");
    }
    build.compile("llmserve_shim");
}

/// Whether llama.cpp's OpenMP code makes the calls that the shim answers: those of GCC on Linux.
fn has_own_threads(build: &cc::Build) -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set == value);
    let is_wanted =
        ["CARGO_FEATURE_OPENMP", "CARGO_FEATURE_OWN_THREADS"].iter().all(|name| env::var_os(name).is_some());
    let compiler = build.get_compiler();
    is_wanted
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
        && compiler.is_like_gnu()
        && !compiler.is_like_clang()
}
