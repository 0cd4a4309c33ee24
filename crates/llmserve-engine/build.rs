//! Compiles the C++ shim of the model module.

fn main() {
    println!("cargo:rerun-if-changed=shim/llmserve_shim.cpp");
    println!("cargo:rerun-if-changed=build.rs");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .warnings(true)
        .file("shim/llmserve_shim.cpp")
        .compile("llmserve_shim");
}
