//! The tensor table: shapes, types and positions of the data.

use std::collections::HashSet;
use std::io::{Read, Seek};

use super::reader::Reader;
use super::tensor_type::{NUM_TYPES, TensorType, TypeNumber};
use super::{damaged, quoted, unsupported};
use crate::error::{LoadError, LoadErrorReason};

/// ggml keeps names in 64 bytes with a NUL at the end.
const LONGEST_NAME: u64 = 63;
const MOST_DIMENSIONS: u32 = 4;
/// Size of the smallest entry: name length, number of dimensions, type and offset.
const LEAST_TENSOR_BYTES: u64 = 8 + 4 + 4 + 8;
/// ggml's CPU buffers over mapped files must start at a multiple of this, or the process ends.
const MAPPED_ALIGNMENT: u64 = 32;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorInfo {
    pub(super) name: String,
    /// Values in a row, rows, and so on; at least 1 each.
    pub(super) dimensions: Vec<u64>,
    pub(super) kind: TensorType,
    /// Offset in bytes from the start of the data section.
    pub(super) offset: u64,
    /// Size of the data in bytes.
    pub(super) num_bytes: u64,
}

/// Reads `count` entries.
pub(super) fn read_table<R: Read + Seek>(
    reader: &mut Reader<R>,
    count: u64,
) -> Result<Vec<TensorInfo>, LoadError> {
    reader.require(count * LEAST_TENSOR_BYTES, "the tensor table")?;
    let mut names = HashSet::new();
    let mut tensors: Vec<TensorInfo> = Vec::new();
    for index in 0..count {
        let tensor = read_tensor(reader, &format!("tensor {} of {count}", index + 1))?;
        if !names.insert(tensor.name.clone()) {
            return Err(damaged(format!("the tensor {} occurs twice", quoted(&tensor.name))));
        }
        tensors.push(tensor);
    }
    Ok(tensors)
}

fn read_tensor<R: Read + Seek>(reader: &mut Reader<R>, place: &str) -> Result<TensorInfo, LoadError> {
    let name = read_name(reader, place)?;
    let what = format!("the entry of tensor {}", quoted(&name));
    let num_dimensions = reader.u32(&what)?;
    // Without dimensions it is a single value.
    if num_dimensions > MOST_DIMENSIONS {
        return Err(damaged(format!(
            "{what} has {num_dimensions} dimensions, more than the limit of {MOST_DIMENSIONS}"
        )));
    }
    let mut dimensions = Vec::new();
    for _ in 0..num_dimensions {
        dimensions.push(reader.u64(&what)?);
    }
    let kind = tensor_type(reader.u32(&what)?, &what)?;
    let offset = reader.u64(&what)?;
    check_arithmetic(&name, &dimensions, kind)?;
    let num_bytes = data_bytes(&dimensions, kind, &what)?;
    Ok(TensorInfo { name, dimensions, kind, offset, num_bytes })
}

fn read_name<R: Read + Seek>(reader: &mut Reader<R>, place: &str) -> Result<String, LoadError> {
    let what = format!("the name of {place}");
    let length = reader.string_length(&what)?;
    if length == 0 || length > LONGEST_NAME {
        return Err(damaged(format!("{what} has {length} bytes, but must have 1 to {LONGEST_NAME}")));
    }
    match String::from_utf8(reader.bytes(length, &what)?) {
        Ok(name) if !name.contains('\0') => Ok(name),
        Ok(_) | Err(_) => Err(damaged(format!("{what} is not a valid text"))),
    }
}

fn tensor_type(number: u32, what: &str) -> Result<TensorType, LoadError> {
    match TypeNumber::of(number) {
        TypeNumber::Known(known) => Ok(known),
        TypeNumber::Removed => {
            Err(unsupported(format!("{what} has type {number}, which llama.cpp no longer supports")))
        }
        TypeNumber::Unknown => Err(unsupported(format!(
            "{what} has type {number}, but the known types are 0 to {}",
            NUM_TYPES - 1
        ))),
    }
}

/// Types that no matrix product reads as weights.
const NO_WEIGHTS: [&str; 7] = ["i8", "i16", "i32", "i64", "f64", "q8_1", "q8_K"];
/// Tensors that contain indices, not weights, in spite of their name.
const INDICES: [&str; 1] = ["ffn_gate_tid2eid"];

/// Refuses types that end the process at the first token: llama.cpp multiplies by norms and adds
/// biases in f32 only, and has no products with some types.
fn check_arithmetic(name: &str, dimensions: &[u64], kind: TensorType) -> Result<(), LoadError> {
    let (stem, role) = name.rsplit_once('.').unwrap_or((name, ""));
    let last = stem.rsplit('.').next().unwrap_or_default();
    let needs_f32 = match role {
        "weight" => last.ends_with("_norm"),
        "bias" => dimensions.len() <= 1,
        // Recurrent layers multiply by these, which have no role in their name.
        "ssm_a" | "ssm_d" => true,
        _ => false,
    };
    if needs_f32 && kind.name != "f32" {
        return Err(unsupported(format!(
            "the tensor {} has type {}, but must be f32",
            quoted(name),
            kind.name
        )));
    }
    if role == "weight" && !INDICES.contains(&last) && NO_WEIGHTS.contains(&kind.name) {
        return Err(unsupported(format!(
            "the tensor {} has type {}, which weights cannot have",
            quoted(name),
            kind.name
        )));
    }
    Ok(())
}

fn data_bytes(dimensions: &[u64], kind: TensorType, what: &str) -> Result<u64, LoadError> {
    let row = dimensions.first().copied().unwrap_or(1);
    if !row.is_multiple_of(kind.block_values) {
        return Err(damaged(format!(
            "{what} has rows of {row} values, but type {} needs a multiple of {}",
            kind.name, kind.block_values
        )));
    }
    if dimensions.contains(&0) {
        return Err(damaged(format!("{what} has a dimension of 0, but it must be at least 1")));
    }
    let values = dimensions.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
    // llama.cpp uses signed numbers.
    values
        .filter(|values| i64::try_from(*values).is_ok())
        .and_then(|values| (values / kind.block_values).checked_mul(kind.block_bytes))
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| damaged(format!("{what} has dimensions {dimensions:?}, which exceed any memory")))
}

/// Checks that the data of the tensors follow each other and lie in the file. The reader stands
/// behind the table.
pub(super) fn check<R: Read + Seek>(
    reader: &Reader<R>,
    tensors: &[TensorInfo],
    alignment: u32,
) -> Result<(), LoadError> {
    let alignment = u64::from(alignment);
    let data_start = reader.position().next_multiple_of(alignment);
    let mut expected = 0_u64;
    for tensor in tensors {
        check_offset(tensor, expected, alignment)?;
        expected = expected
            .checked_add(tensor.num_bytes)
            .and_then(|end| end.checked_next_multiple_of(alignment))
            .filter(|end| end.checked_add(data_start).is_some())
            .ok_or_else(|| damaged(format!("the tensors up to {} exceed 64 bits", quoted(&tensor.name))))?;
    }
    for tensor in tensors {
        check_place(tensor, data_start, reader.size())?;
    }
    Ok(())
}

fn check_offset(tensor: &TensorInfo, expected: u64, alignment: u64) -> Result<(), LoadError> {
    let offset = tensor.offset;
    if offset == expected {
        return Ok(());
    }
    let fault = if !offset.is_multiple_of(alignment) {
        format!("is not a multiple of the alignment {alignment}")
    } else if offset < expected {
        "overlaps the tensor before it it".to_owned()
    } else {
        "leaves a gap".to_owned()
    };
    Err(damaged(format!(
        "the data of tensor {} starts at offset {offset}, expected {expected}: it {fault}",
        quoted(&tensor.name)
    )))
}

fn check_place(tensor: &TensorInfo, data_start: u64, file_size: u64) -> Result<(), LoadError> {
    let start = data_start + tensor.offset;
    let end = start + tensor.num_bytes;
    if end > file_size {
        return Err(LoadError::new(
            LoadErrorReason::Truncated,
            format!(
                "the file ends after {file_size} bytes, but the data of tensor {} extends to byte {end}",
                quoted(&tensor.name)
            ),
        ));
    }
    if !start.is_multiple_of(MAPPED_ALIGNMENT) {
        return Err(unsupported(format!(
            "the data of tensor {} starts at byte {start}, but llama.cpp needs a multiple of {MAPPED_ALIGNMENT}",
            quoted(&tensor.name)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(number: u32) -> TensorType {
        tensor_type(number, "it").unwrap()
    }

    #[test]
    fn sizes_follow_from_blocks() {
        assert_eq!(data_bytes(&[], kind(0), "it").unwrap(), 4);
        assert_eq!(data_bytes(&[64, 3], kind(2), "it").unwrap(), 2 * 3 * 18);
        assert_eq!(data_bytes(&[256, 2, 2], kind(14), "it").unwrap(), 4 * 210);
    }

    #[test]
    fn impossible_shapes_are_damage() {
        for shape in [&[33_u64][..], &[32, 0], &[32, u64::MAX], &[1 << 62, 4]] {
            assert_eq!(data_bytes(shape, kind(2), "it").unwrap_err().reason, LoadErrorReason::Damaged);
        }
        // The values fit into 63 bits, the bytes do not.
        assert!(data_bytes(&[1 << 61], kind(0), "it").is_err());
    }

    #[test]
    fn types_fit_the_arithmetic() {
        assert!(check_arithmetic("blk.0.attn_norm.weight", &[32], kind(1)).is_err());
        assert!(check_arithmetic("blk.0.attn_q.bias", &[32], kind(30)).is_err());
        assert!(check_arithmetic("blk.0.attn_q.bias", &[32], kind(0)).is_ok());
        assert!(check_arithmetic("blk.0.attn_q.weight", &[32, 32], kind(1)).is_ok());
        assert!(check_arithmetic("blk.0.ffn_gate_tid2eid.weight", &[6, 32], kind(26)).is_ok());
        assert!(check_arithmetic("blk.0.attn_q.weight", &[32, 32], kind(26)).is_err());
        assert!(check_arithmetic("output.weight", &[256, 32], kind(15)).is_err());
    }

    #[test]
    fn removed_and_unknown_types_are_unsupported() {
        for number in [4, 31, 38, 43, u32::MAX] {
            assert_eq!(tensor_type(number, "it").unwrap_err().reason, LoadErrorReason::Unsupported);
        }
    }
}
