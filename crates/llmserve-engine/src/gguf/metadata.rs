//! The typed key-value pairs of a GGUF file.

use std::collections::BTreeMap;
use std::fmt;

/// Type of a value, in the format's numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the format's
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Str,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    /// The type with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        const TYPES: [ValueType; 13] = [
            ValueType::U8,
            ValueType::I8,
            ValueType::U16,
            ValueType::I16,
            ValueType::U32,
            ValueType::I32,
            ValueType::F32,
            ValueType::Bool,
            ValueType::Str,
            ValueType::Array,
            ValueType::U64,
            ValueType::I64,
            ValueType::F64,
        ];
        TYPES.get(number as usize).copied()
    }

    /// Bytes of one value in the file; for a string or an array those of its empty form.
    #[must_use]
    pub fn least_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::Str => 8,
            Self::Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::Str => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        };
        formatter.write_str(name)
    }
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // the names are the format's
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    /// A text, which need not be UTF-8.
    Str(Vec<u8>),
    /// A text that is too long to be kept; its length in bytes.
    LongStr(u64),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl Value {
    /// The value's type.
    #[must_use]
    pub fn kind(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::Str(_) | Self::LongStr(_) => ValueType::Str,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// The value as an integer, whatever its width.
    #[must_use]
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Self::U8(value) => Some((*value).into()),
            Self::I8(value) => Some((*value).into()),
            Self::U16(value) => Some((*value).into()),
            Self::I16(value) => Some((*value).into()),
            Self::U32(value) => Some((*value).into()),
            Self::I32(value) => Some((*value).into()),
            Self::U64(value) => i64::try_from(*value).ok(),
            Self::I64(value) => Some(*value),
            Self::F32(_)
            | Self::F64(_)
            | Self::Bool(_)
            | Self::Str(_)
            | Self::LongStr(_)
            | Self::Array(_) => None,
        }
    }
}

/// An array value, with only those elements that are needed later.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Type of the elements.
    pub element: ValueType,
    /// Number of elements.
    pub length: u64,
    /// The elements that were kept.
    pub items: Items,
}

/// Elements of a short array of numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Items {
    /// Integers and booleans (0 and 1).
    Integers(Vec<i64>),
    /// Strings, floats and long arrays are not kept.
    Skipped,
}

/// The metadata of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    entries: BTreeMap<String, Value>,
}

impl Metadata {
    /// Adds a pair; false if the key is there already.
    pub(super) fn insert(&mut self, key: String, value: Value) -> bool {
        self.entries.insert(key, value).is_none()
    }

    /// Whether the key is there.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// A text that is UTF-8.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        if let Value::Str(bytes) = self.get(key)? { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// An integer of any width.
    #[must_use]
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.get(key)?.as_integer()
    }

    /// A number of type u32.
    #[must_use]
    pub fn u32(&self, key: &str) -> Option<u32> {
        if let Value::U32(value) = self.get(key)? { Some(*value) } else { None }
    }

    /// A boolean.
    #[must_use]
    pub fn bool(&self, key: &str) -> Option<bool> {
        if let Value::Bool(value) = self.get(key)? { Some(*value) } else { None }
    }

    /// An array.
    #[must_use]
    pub fn array(&self, key: &str) -> Option<&Array> {
        if let Value::Array(array) = self.get(key)? { Some(array) } else { None }
    }

    /// The model's architecture, as `general.architecture` names it.
    #[must_use]
    pub fn architecture(&self) -> Option<&str> {
        self.text("general.architecture")
    }

    /// The key of a value that belongs to the architecture: `suffix` behind its name.
    #[must_use]
    pub fn model_key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.architecture().unwrap_or_default())
    }

    /// A number for each of `layers` layers, from an array or one number for all.
    #[must_use]
    pub fn per_layer(&self, key: &str, layers: usize) -> Option<Vec<u64>> {
        let value = self.get(key)?;
        if let Value::Array(array) = value {
            let Items::Integers(items) = &array.items else {
                return None;
            };
            let numbers: Option<Vec<u64>> = items.iter().map(|item| u64::try_from(*item).ok()).collect();
            return numbers.filter(|numbers| numbers.len() == layers);
        }
        Some(vec![u64::try_from(value.as_integer()?).ok()?; layers])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_per_layer_come_from_one_or_many() {
        let mut metadata = Metadata::default();
        metadata.insert("one".into(), Value::U32(3));
        let items = Items::Integers(vec![1, 2]);
        let array = Array { element: ValueType::I32, length: 2, items };
        metadata.insert("many".into(), Value::Array(array));
        assert_eq!(metadata.per_layer("one", 2), Some(vec![3, 3]));
        assert_eq!(metadata.per_layer("many", 2), Some(vec![1, 2]));
        assert_eq!(metadata.per_layer("many", 3), None);
        assert_eq!(metadata.per_layer("none", 3), None);
    }

    #[test]
    fn a_key_is_added_once() {
        let mut metadata = Metadata::default();
        assert!(metadata.insert("key".into(), Value::Bool(true)));
        assert!(!metadata.insert("key".into(), Value::Bool(true)));
    }
}
