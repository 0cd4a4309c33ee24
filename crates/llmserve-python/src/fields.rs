//! Reads the attributes of a Python dataclass. Values that do not fit are refused with the attribute's
//! name and the value; nothing is rounded, cut or taken for something else.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping, PyString};

/// Makes the exception for a field and what is wrong with it.
pub(crate) type Refusal = fn(Python<'_>, &str, &str) -> PyErr;

/// The longest representation of a value in a message, in characters.
const MAX_SHOWN: usize = 80;

/// A dataclass whose fields are read.
pub(crate) struct Fields<'py> {
    object: Bound<'py, PyAny>,
    refuse: Refusal,
}

/// One field's value, not yet converted.
pub(crate) struct Field<'py> {
    name: String,
    value: Bound<'py, PyAny>,
    refuse: Refusal,
}

/// Unsigned integers of the engine's types.
pub(crate) trait Unsigned: TryFrom<u64> {
    /// The largest value.
    const MAX: u64;
}

impl Unsigned for u32 {
    const MAX: u64 = Self::MAX as u64;
}

impl Unsigned for u64 {
    const MAX: u64 = Self::MAX;
}

impl Unsigned for usize {
    const MAX: u64 = Self::MAX as u64;
}

impl<'py> Fields<'py> {
    pub(crate) fn new(object: &Bound<'py, PyAny>, refuse: Refusal) -> Self {
        Self { object: object.clone(), refuse }
    }

    pub(crate) fn get(&self, name: &str) -> PyResult<Field<'py>> {
        Ok(Field { name: name.to_owned(), value: self.object.getattr(name)?, refuse: self.refuse })
    }

    pub(crate) fn uint<T: Unsigned>(&self, name: &str) -> PyResult<T> {
        self.get(name)?.uint()
    }

    pub(crate) fn float(&self, name: &str) -> PyResult<f32> {
        self.get(name)?.float()
    }

    pub(crate) fn bool(&self, name: &str) -> PyResult<bool> {
        self.get(name)?.bool()
    }

    pub(crate) fn optional_uint<T: Unsigned>(&self, name: &str) -> PyResult<Option<T>> {
        self.get(name)?.optional().map(|field| field.uint()).transpose()
    }

    pub(crate) fn optional_float(&self, name: &str) -> PyResult<Option<f32>> {
        self.get(name)?.optional().map(|field| field.float()).transpose()
    }

    /// The value that one of a few names stands for.
    pub(crate) fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> PyResult<T> {
        self.get(name)?.choice(choices)
    }
}

impl<'py> Field<'py> {
    pub(crate) fn new(name: &str, value: Bound<'py, PyAny>, refuse: Refusal) -> Self {
        Self { name: name.to_owned(), value, refuse }
    }

    /// `None` for Python's `None`.
    pub(crate) fn optional(self) -> Option<Self> {
        (!self.value.is_none()).then_some(self)
    }

    pub(crate) fn is_bool(&self) -> bool {
        self.value.is_instance_of::<PyBool>()
    }

    /// An integer that fits; `True` does not count as one.
    pub(crate) fn uint<T: Unsigned>(&self) -> PyResult<T> {
        let value = (!self.is_bool()).then(|| self.value.extract::<u64>().ok()).flatten();
        value
            .and_then(|value| T::try_from(value).ok())
            .ok_or_else(|| self.refused(&format!("an integer from 0 to {}", T::MAX)))
    }

    pub(crate) fn int(&self) -> PyResult<i64> {
        let value = (!self.is_bool()).then(|| self.value.extract::<i64>().ok()).flatten();
        value.ok_or_else(|| self.refused("an integer of at most 64 bits"))
    }

    /// A number, also one that is not finite: the engine knows which fields may have it.
    pub(crate) fn float64(&self) -> PyResult<f64> {
        let value = (!self.is_bool()).then(|| self.value.extract::<f64>().ok()).flatten();
        value.ok_or_else(|| self.refused("a number"))
    }

    pub(crate) fn float(&self) -> PyResult<f32> {
        Ok(self.float64()? as f32)
    }

    pub(crate) fn bool(&self) -> PyResult<bool> {
        self.value.extract().map_err(|_| self.refused("True or False"))
    }

    pub(crate) fn text(&self) -> PyResult<String> {
        let text = self.value.cast::<PyString>().map_err(|_| self.refused("a str"))?;
        // Fails on lone surrogates, which no UTF-8 text has.
        Ok(text.to_str().map_err(|_| self.refused("valid Unicode text"))?.to_owned())
    }

    pub(crate) fn path(&self) -> PyResult<std::path::PathBuf> {
        self.value.extract().map_err(|_| self.refused("a path"))
    }

    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> PyResult<T> {
        let text: Option<String> = self.value.extract().ok();
        let chosen = choices.iter().find(|(name, _)| text.as_deref() == Some(name));
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("'{name}'")).collect();
            self.refused(&format!("one of {}", names.join(", ")))
        })
    }

    /// The items of an iterable other than a text; each bears this field's name.
    pub(crate) fn items(&self) -> PyResult<Vec<Self>> {
        let is_text = self.value.is_instance_of::<PyString>();
        let items = (!is_text).then(|| self.value.try_iter().ok()).flatten();
        let items = items.ok_or_else(|| self.refused("a sequence"))?;
        items.map(|item| Ok(self.with(item?))).collect()
    }

    /// The keys and values of a mapping; each bears this field's name.
    pub(crate) fn entries(&self) -> PyResult<Vec<(Self, Self)>> {
        if let Ok(dict) = self.value.cast::<PyDict>() {
            return Ok(dict.iter().map(|(key, value)| (self.with(key), self.with(value))).collect());
        }
        let mapping = self.value.cast::<PyMapping>().map_err(|_| self.refused("a mapping"))?;
        let mut entries = Vec::new();
        for item in mapping.items()?.iter() {
            let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item.extract()?;
            entries.push((self.with(key), self.with(value)));
        }
        Ok(entries)
    }

    /// An attribute of the value, under a name of its own.
    pub(crate) fn attribute(&self, name: &str) -> PyResult<Self> {
        Ok(Self {
            name: format!("{}.{name}", self.name),
            value: self.value.getattr(name).map_err(|_| self.refused(&format!("an object with `{name}`")))?,
            refuse: self.refuse,
        })
    }

    fn with(&self, value: Bound<'py, PyAny>) -> Self {
        Self { name: self.name.clone(), value, refuse: self.refuse }
    }

    pub(crate) fn refused(&self, expected: &str) -> PyErr {
        let shown =
            self.value.repr().map_or_else(|_| "a value".to_owned(), |repr| shorten(&repr.to_string()));
        (self.refuse)(self.value.py(), &self.name, &format!("must be {expected}, got {shown}"))
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
