//! Reads the key-value pairs of a header.

use std::io::{Read, Seek};

use super::metadata::{Array, Items, Metadata, Value, ValueType};
use super::reader::Reader;
use super::{damaged, quoted, unsupported};
use crate::error::LoadError;

/// The format's limit of a key.
const LONGEST_KEY: u64 = 65_535;
/// Texts up to here are kept: chat templates are some 10 KiB.
const LONGEST_KEPT_STRING: u64 = 1 << 20;
/// Maximum size of all keys and texts that are kept.
const KEPT_BYTES: u64 = 64 << 20;
/// llama.cpp's limit of elements.
const LONGEST_ARRAY: u64 = 1 << 30;
/// Arrays of integers up to here are kept: per-layer values have at most 512.
const LONGEST_KEPT_ARRAY: u64 = 4096;

/// Reads pairs, and keeps a limited number of bytes of them.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    metadata: Metadata,
    kept_bytes: u64,
}

impl Pairs {
    /// Reads `count` pairs.
    pub(super) fn read<R: Read + Seek>(reader: &mut Reader<R>, count: u64) -> Result<Metadata, LoadError> {
        let mut pairs = Self::default();
        for index in 0..count {
            let key = pairs.read_key(reader, index, count)?;
            let what = format!("the value of {}", quoted(&key));
            let number = reader.u32(&what)?;
            let kind = ValueType::from_number(number).ok_or_else(|| {
                damaged(format!("{what} has type {number}, but the known types are 0 to 12"))
            })?;
            let value = pairs.read_value(reader, kind, &what)?;
            if pairs.metadata.contains(&key) {
                return Err(damaged(format!("the key {} occurs twice", quoted(&key))));
            }
            pairs.metadata.insert(key, value);
        }
        Ok(pairs.metadata)
    }

    fn read_key<R: Read + Seek>(
        &mut self,
        reader: &mut Reader<R>,
        index: u64,
        count: u64,
    ) -> Result<String, LoadError> {
        let what = format!("metadata key {} of {count}", index + 1);
        let length = reader.string_length(&what)?;
        if length == 0 || length > LONGEST_KEY {
            return Err(damaged(format!("{what} has {length} bytes, but must have 1 to {LONGEST_KEY}")));
        }
        self.kept_bytes += length;
        if self.kept_bytes > KEPT_BYTES {
            return Err(damaged(format!("the keys and texts exceed {KEPT_BYTES} bytes at {what}")));
        }
        match String::from_utf8(reader.bytes(length, &what)?) {
            Ok(key) if !key.contains('\0') => Ok(key),
            Ok(_) | Err(_) => Err(damaged(format!("{what} is not a valid text"))),
        }
    }

    fn read_value<R: Read + Seek>(
        &mut self,
        reader: &mut Reader<R>,
        kind: ValueType,
        what: &str,
    ) -> Result<Value, LoadError> {
        Ok(match kind {
            ValueType::U8 => Value::U8(reader.array::<1>(what)?[0]),
            ValueType::I8 => Value::I8(i8::from_le_bytes(reader.array(what)?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(reader.array(what)?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(reader.array(what)?)),
            ValueType::U32 => Value::U32(reader.u32(what)?),
            ValueType::I32 => Value::I32(i32::from_le_bytes(reader.array(what)?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(reader.array(what)?)),
            ValueType::Bool => Value::Bool(reader.array::<1>(what)? != [0]),
            ValueType::U64 => Value::U64(reader.u64(what)?),
            ValueType::I64 => Value::I64(i64::from_le_bytes(reader.array(what)?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(reader.array(what)?)),
            ValueType::Str => self.read_text(reader, what)?,
            ValueType::Array => Value::Array(self.read_array(reader, what)?),
        })
    }

    fn read_text<R: Read + Seek>(&mut self, reader: &mut Reader<R>, what: &str) -> Result<Value, LoadError> {
        let length = reader.string_length(what)?;
        if length > LONGEST_KEPT_STRING || self.kept_bytes + length > KEPT_BYTES {
            reader.skip(length, what)?;
            return Ok(Value::LongStr(length));
        }
        self.kept_bytes += length;
        reader.bytes(length, what).map(Value::Str)
    }

    fn read_array<R: Read + Seek>(&mut self, reader: &mut Reader<R>, what: &str) -> Result<Array, LoadError> {
        let number = reader.u32(what)?;
        let element = ValueType::from_number(number).ok_or_else(|| {
            damaged(format!("{what} has elements of type {number}, but the known types are 0 to 12"))
        })?;
        if element == ValueType::Array {
            return Err(unsupported(format!("{what} is an array of arrays, which llama.cpp does not read")));
        }
        let length = reader.u64(what)?;
        if length > LONGEST_ARRAY {
            return Err(damaged(format!(
                "{what} has {length} elements, more than the limit of {LONGEST_ARRAY}"
            )));
        }
        reader.require(length * element.least_bytes(), what)?;
        let is_float = matches!(element, ValueType::F32 | ValueType::F64);
        let items = if element == ValueType::Str {
            skip_texts(reader, length, what)?
        } else if is_float || length > LONGEST_KEPT_ARRAY {
            skip_numbers(reader, element, length, what)?
        } else {
            self.read_integers(reader, element, length, what)?
        };
        Ok(Array { element, length, items })
    }

    fn read_integers<R: Read + Seek>(
        &mut self,
        reader: &mut Reader<R>,
        element: ValueType,
        length: u64,
        what: &str,
    ) -> Result<Items, LoadError> {
        self.kept_bytes += 8 * length;
        if self.kept_bytes > KEPT_BYTES {
            return skip_numbers(reader, element, length, what);
        }
        let mut items = Vec::new();
        for _ in 0..length {
            let value = self.read_value(reader, element, what)?;
            // No count or id exceeds i64: a larger u64 is clamped.
            let number = if let Value::Bool(value) = value { Some(value.into()) } else { value.as_integer() };
            items.push(number.unwrap_or(i64::MAX));
        }
        Ok(Items::Integers(items))
    }
}

/// Steps over texts, checking that each lies in the file.
fn skip_texts<R: Read + Seek>(reader: &mut Reader<R>, count: u64, what: &str) -> Result<Items, LoadError> {
    for _ in 0..count {
        let length = reader.string_length(what)?;
        reader.skip(length, what)?;
    }
    Ok(Items::Skipped)
}

fn skip_numbers<R: Read + Seek>(
    reader: &mut Reader<R>,
    element: ValueType,
    length: u64,
    what: &str,
) -> Result<Items, LoadError> {
    reader.skip(length * element.least_bytes(), what)?;
    Ok(Items::Skipped)
}
