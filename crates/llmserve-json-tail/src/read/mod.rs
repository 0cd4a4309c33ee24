//! Reads the text of a schema into [`Source`]s: every keyword is understood, refused, or known to
//! be an annotation.

mod constants;
mod fields;
mod reference;
mod values;

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use super::error::SchemaError;
use super::keywords::{Role, role};
use super::pattern::Patterns;
use super::source::{Link, Rules, Source, SourceId};
use fields::Fields;
pub(super) use fields::kind;

/// Maximum number of subschemas that are read; llguidance has the same limit.
const MAX_SOURCES: usize = 50_000;

/// A schema that has been read: all subschemas that its documents can meet.
#[derive(Debug)]
pub(super) struct Schema {
    /// The first one is the root.
    pub(super) sources: Vec<Source>,
    /// The place of each: a JSON pointer.
    pub(super) paths: Vec<String>,
}

/// Reads `root` and everything that it refers to.
///
/// # Errors
/// The first keyword that is malformed or cannot be honoured.
pub(super) fn read(root: &Value) -> Result<(Schema, Patterns), SchemaError> {
    if matches!(root, Value::Bool(false)) {
        return Err(SchemaError::new("schema", "", "`false` allows no document"));
    }
    let mut reader = Reader::new(root);
    reader.schema(String::new(), "schema", root)?;
    while let Some((id, task)) = reader.tasks.pop_front() {
        reader.sources[id] = match task {
            Task::Schema { path, keyword, value } => reader.read_schema(&path, keyword, value)?,
            Task::Constant(value) => reader.read_constant(value)?,
        };
    }
    reference::refuse_empty_cycles(&reader.sources, &reader.paths)?;
    Ok((Schema { sources: reader.sources, paths: reader.paths }, reader.patterns))
}

/// Something that still has to be read.
enum Task<'s> {
    Schema { path: String, keyword: &'static str, value: &'s Value },
    Constant(&'s Value),
}

struct Reader<'s> {
    root: &'s Value,
    sources: Vec<Source>,
    paths: Vec<String>,
    by_path: HashMap<String, SourceId>,
    patterns: Patterns,
    tasks: VecDeque<(SourceId, Task<'s>)>,
}

impl<'s> Reader<'s> {
    fn new(root: &'s Value) -> Self {
        Self {
            root,
            sources: Vec::new(),
            paths: Vec::new(),
            by_path: HashMap::new(),
            patterns: Patterns::default(),
            tasks: VecDeque::new(),
        }
    }

    /// The subschema at `path`, to be read once however often it is referred to.
    fn schema(
        &mut self,
        path: String,
        keyword: &'static str,
        value: &'s Value,
    ) -> Result<SourceId, SchemaError> {
        if let Some(&id) = self.by_path.get(&path) {
            return Ok(id);
        }
        let id = self.allocate(&path)?;
        self.by_path.insert(path.clone(), id);
        self.tasks.push_back((id, Task::Schema { path, keyword, value }));
        Ok(id)
    }

    /// A schema that allows `value` alone.
    fn constant(&mut self, path: &str, value: &'s Value) -> Result<SourceId, SchemaError> {
        let id = self.allocate(path)?;
        self.tasks.push_back((id, Task::Constant(value)));
        Ok(id)
    }

    fn allocate(&mut self, path: &str) -> Result<SourceId, SchemaError> {
        if self.sources.len() >= MAX_SOURCES {
            let reason = format!("the schema has more than {MAX_SOURCES} subschemas and constants");
            return Err(SchemaError::new("schema", path, reason));
        }
        self.sources.push(Source::Any);
        self.paths.push(path.to_owned());
        Ok(self.sources.len() - 1)
    }

    fn read_schema(&mut self, path: &str, keyword: &str, value: &'s Value) -> Result<Source, SchemaError> {
        if let Some(allows) = value.as_bool() {
            return Ok(if allows { Source::Any } else { Source::Never });
        }
        let Some(map) = value.as_object() else {
            let reason = format!("must be a schema (an object or a boolean), not {}", kind(value));
            return Err(SchemaError::new(keyword, path, reason));
        };
        let fields = Fields { path, map };
        refuse(&fields)?;
        self.read_rules(&fields)
    }

    fn read_rules(&mut self, fields: &Fields<'s, '_>) -> Result<Source, SchemaError> {
        let mut rules = Rules { types: fields.types()?, ..Rules::default() };
        rules.number = values::number(fields)?;
        rules.text = self.text(fields)?;
        rules.list = self.list(fields)?;
        rules.record = self.record(fields)?;
        let place = own_place(fields.map);
        for (index, (keyword, value)) in fields.map.iter().enumerate() {
            if place == Some(index) {
                rules.links.push(Link::Own);
            }
            if role(keyword) == Role::InPlace {
                let links = self.in_place(fields, keyword, value)?;
                rules.links.extend(links);
            }
        }
        if rules.links.is_empty() {
            return Ok(Source::Any);
        }
        Ok(Source::Rules(Box::new(rules)))
    }

    fn in_place(
        &mut self,
        fields: &Fields<'s, '_>,
        keyword: &str,
        value: &'s Value,
    ) -> Result<Vec<Link>, SchemaError> {
        match keyword {
            "const" => self.choice_of_constants(fields, "const", std::slice::from_ref(value)),
            "enum" => {
                let values = fields.list("enum")?.unwrap_or_default();
                self.choice_of_constants(fields, "enum", values)
            }
            "$ref" => self.reference(fields, value),
            "allOf" => {
                let ids = self.branches(fields, "allOf")?;
                Ok(ids.into_iter().map(Link::Also).collect())
            }
            "anyOf" => Ok(vec![Link::Choice(self.branches(fields, "anyOf")?)]),
            _ => Ok(vec![Link::Choice(self.branches(fields, "oneOf")?)]),
        }
    }

    fn branches(
        &mut self,
        fields: &Fields<'s, '_>,
        keyword: &'static str,
    ) -> Result<Vec<SourceId>, SchemaError> {
        let values = fields.list(keyword)?.unwrap_or_default();
        if values.is_empty() {
            return Err(fields.error(keyword, "must have at least one schema"));
        }
        let path = |index| format!("{}/{keyword}/{index}", fields.path);
        values.iter().enumerate().map(|(i, value)| self.schema(path(i), keyword, value)).collect()
    }
}

/// The first keyword that says something about the value itself: `properties` where there is
/// one, since it settles the order of the members.
fn own_place(map: &Map<String, Value>) -> Option<usize> {
    map.keys()
        .position(|keyword| keyword == "properties")
        .or_else(|| map.keys().position(|keyword| role(keyword) == Role::Own))
}

fn refuse(fields: &Fields<'_, '_>) -> Result<(), SchemaError> {
    for keyword in fields.map.keys() {
        if role(keyword) == Role::Refused {
            return Err(fields.error(keyword, "is not supported"));
        }
    }
    Ok(())
}
