//! Generates messages and services from the `.proto` files, in Rust alone: no protoc is needed.
//! Beside them a table of the messages' shapes, by which `src/memory.rs` tells what they take.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use protox::prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

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
    let pool = DescriptorPool::from_file_descriptor_set(descriptors.clone())?;
    let folder = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&folder).join("shapes.rs"), shapes(&pool)?)?;
    tonic_prost_build::configure()
        // Payloads are slices of the received message, not copies.
        .bytes(".")
        // Maps in order, so that equal messages are equal bytes.
        .btree_map(".")
        .codec_path("crate::codec::BoundedCodec")
        .compile_fds(descriptors)?;
    Ok(())
}

/// The table, and each message's place in it.
fn shapes(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let messages: Vec<MessageDescriptor> = pool.all_messages().collect();
    let place = |message: &MessageDescriptor| messages.iter().position(|m| m == message);
    let mut code = String::from("pub(super) static SHAPES: &[Shape] = &[\n");
    for message in &messages {
        writeln!(code, "// {}\nShape {{ fields: &[", message.full_name())?;
        for field in message.fields() {
            if let Some(kind) = kind(&field, &place)? {
                let number = field.number();
                writeln!(code, "Field {{ number: {number}, kind: {kind} }},")?;
            }
        }
        writeln!(code, "] }},")?;
    }
    writeln!(code, "];")?;
    for (place, message) in messages.iter().enumerate() {
        if !message.is_map_entry() {
            let path = path(message);
            writeln!(
                code,
                "impl Shaped for {path} {{ const SHAPE: usize = {place}; }}"
            )?;
        }
    }
    Ok(code)
}

/// What a field may take, in Rust; `None` for what is in its place and takes nothing of its own.
fn kind(
    field: &FieldDescriptor,
    place: &dyn Fn(&MessageDescriptor) -> Option<usize>,
) -> Result<Option<String>, Box<dyn Error>> {
    let message = match field.kind() {
        Kind::Message(message) => Some(message),
        _ => None,
    };
    let shape = match &message {
        Some(message) => place(message).ok_or("a message that is in no file")?,
        None => 0,
    };
    Ok(match message {
        Some(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            let (key, value) = (rust(&key.kind())?, rust(&value.kind())?);
            Some(format!("Kind::Map({shape}, size_of::<({key}, {value})>())"))
        }
        Some(message) if field.is_list() => {
            let path = path(&message);
            Some(format!("Kind::Messages({shape}, size_of::<{path}>())"))
        }
        Some(_) => Some(format!("Kind::One({shape})")),
        None if field.is_list() => {
            let rust = rust(&field.kind())?;
            Some(match field.kind() {
                Kind::String | Kind::Bytes => format!("Kind::Texts(size_of::<{rust}>())"),
                Kind::Double | Kind::Float => {
                    format!("Kind::Numbers(size_of::<{rust}>(), Some(size_of::<{rust}>()))")
                }
                _ => format!("Kind::Numbers(size_of::<{rust}>(), None)"),
            })
        }
        None => None,
    })
}

/// The type of a value in the generated messages.
fn rust(kind: &Kind) -> Result<String, Box<dyn Error>> {
    Ok(match kind {
        Kind::Double => "f64".into(),
        Kind::Float => "f32".into(),
        Kind::Uint64 => "u64".into(),
        Kind::Uint32 => "u32".into(),
        Kind::Enum(_) => "i32".into(),
        Kind::Bool => "bool".into(),
        Kind::String => "String".into(),
        Kind::Bytes => "prost::bytes::Bytes".into(),
        Kind::Message(message) => path(message),
        other => return Err(format!("no field has had the type {other:?} so far").into()),
    })
}

/// Where a message is in the generated code: one within another is in that one's module.
fn path(message: &MessageDescriptor) -> String {
    match message.parent_message() {
        Some(outer) => {
            let mut module = String::new();
            for letter in outer.name().chars() {
                if letter.is_uppercase() && !module.is_empty() {
                    module.push('_');
                }
                module.extend(letter.to_lowercase());
            }
            format!("v1::{module}::{}", message.name())
        }
        None => format!("v1::{}", message.name()),
    }
}
