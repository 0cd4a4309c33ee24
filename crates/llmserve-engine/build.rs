//! Compiles the C++ shim of the model module.

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=build.rs");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").warnings(true).file("shim/llmserve_shim.cpp");
    if std::env::var_os("CARGO_FEATURE_OWN_THREADS").is_some() {
        build.file("shim/llmserve_threads.cpp");
    }
    build.compile("llmserve_shim");
}
