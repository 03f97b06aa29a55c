//! Generates messages and services from the `.proto` files, in Rust alone: no protoc is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let files = [
        "windlass/v1/admin.proto",
        "windlass/v1/control.proto",
        "windlass/v1/data.proto",
    ];
    for file in files {
        println!("cargo::rerun-if-changed=proto/{file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure()
        // Payloads are slices of the received message, not copies.
        .bytes(".")
        // Maps in order, so that equal messages are equal bytes.
        .btree_map(".")
        .compile_fds(descriptors)?;
    Ok(())
}
