//! `oneOf`, `if` and what depends on members, as choices.

use std::rc::Rc;

use serde_json::{Value, json};

use super::super::error::SchemaError;
use super::disjoint::are_disjoint;
use super::{Place, Rewriter, Sent, Sign, all_of, any_of, never};

/// Nesting to which excluded branches are written out where they are referred to.
const MAX_EXCLUDED: usize = 2;
/// References that are followed to a schema.
const MAX_REFERENCES: usize = 4;
/// Names of other branches that an excluded one is asked for.
const MAX_NAMES: usize = 64;

impl<'s> Rewriter<'s> {
    /// One branch, and none of those that may match beside it. A branch is left out if another one may match beside it
    /// and cannot be excluded.
    pub(super) fn one_of(&mut self, sent: &Sent<'s, '_>) -> Result<Value, SchemaError> {
        let branches = sent.children("oneOf");
        if branches.is_empty() {
            return Err(sent.error("oneOf", "must be an array of at least one schema"));
        }
        let schemas = self.each(&branches, "oneOf", Sign::Is)?;
        let mut ways = Vec::new();
        let mut excluded: Vec<Option<Value>> = vec![None; schemas.len()];
        let mut left_out = None;
        let names = Rc::new(self.names_in(&branches));
        for (index, schema) in schemas.iter().enumerate() {
            let mut parts = vec![schema.clone()];
            for (other, at) in branches.iter().enumerate() {
                if other == index || self.are_disjoint(&schemas[index], &schemas[other]) {
                    continue;
                }
                if let Some(known) = &excluded[other] {
                    parts.push(self.copy(known, sent.path)?);
                    continue;
                }
                let not = match self.excluded(at, &names) {
                    Ok(not) => not,
                    Err(error) => {
                        let reason = format!(
                            "branches {} and {} may both match, and excluding `{}` is not supported",
                            index.min(other),
                            index.max(other),
                            error.keyword
                        );
                        left_out.get_or_insert_with(|| sent.error("oneOf", reason));
                        Value::Bool(false)
                    }
                };
                parts.push(not.clone());
                excluded[other] = Some(not);
            }
            ways.push(all_of(parts));
        }
        ways.retain(|way| *way != Value::Bool(false));
        if let Some(error) = left_out {
            if ways.is_empty() {
                return Err(error);
            }
            ways.push(never());
        }
        let one = any_of(ways);
        Ok(if one.is_object() { self.object(sent.path, one) } else { one })
    }

    /// A branch that must not match beside others, in which `names` are the names of members.
    fn excluded(&mut self, at: &Place<'s>, names: &Rc<Vec<String>>) -> Result<Value, SchemaError> {
        let place = if self.num_excluded < MAX_EXCLUDED { self.behind_reference(at) } else { at.clone() };
        let around = std::mem::replace(&mut self.sibling_names, Rc::clone(names));
        self.num_excluded += 1;
        let not = self.negated(&place, "oneOf", Sign::Not);
        self.num_excluded -= 1;
        self.sibling_names = around;
        not
    }

    /// What a schema that is a mere reference leads to.
    fn behind_reference(&self, at: &Place<'s>) -> Place<'s> {
        let mut place = at.clone();
        for _ in 0..MAX_REFERENCES {
            let Some(map) = place.value.as_object().filter(|map| map.len() == 1) else { break };
            let Some(target) = map.get("$ref").and_then(Value::as_str) else { break };
            let Ok(path) = self.references.resolve(self.root, &place.path, target) else { break };
            let Some(value) = self.root.pointer(&path) else { break };
            place = Place { path, value };
        }
        place
    }

    /// The names that `properties` of schemas and of what applies beside them have.
    fn names_in(&self, places: &[Place<'s>]) -> Vec<String> {
        let mut names = Vec::new();
        let mut open: Vec<(Place<'s>, usize)> = places.iter().map(|at| (at.clone(), 0)).collect();
        while let Some((at, depth)) = open.pop() {
            let at = self.behind_reference(&at);
            let Some(map) = at.value.as_object().filter(|_| depth < MAX_REFERENCES) else { continue };
            let sent = Sent { path: &at.path, map };
            open.extend(sent.children("allOf").into_iter().map(|part| (part, depth + 1)));
            for (name, _) in sent.named("properties") {
                if !names.contains(name) && names.len() < MAX_NAMES {
                    names.push(name.clone());
                }
            }
        }
        names
    }

    fn are_disjoint(&mut self, one: &Value, other: &Value) -> bool {
        are_disjoint(one, other, &mut |reference| self.look_up(reference))
    }

    /// What a reference of the normal form leads to, as far as it is known without going round in circles.
    pub(super) fn look_up(&mut self, reference: &str) -> Option<Rc<Value>> {
        if let Some(known) = self.looked_up.get(reference) {
            return known.clone();
        }
        self.looked_up.insert(reference.to_owned(), None);
        let name = reference.strip_prefix("#/$defs/")?;
        let (path, sign, _) = self.names.iter().find(|(_, known)| *known == name)?.0.clone();
        let value = self.root.pointer(&path)?;
        let found = self.schema(&Place { path, value }, "$ref", sign).ok().map(Rc::new);
        self.looked_up.insert(reference.to_owned(), found.clone());
        found
    }

    /// Not one branch, or two.
    pub(super) fn not_one_of(&mut self, sent: &Sent<'s, '_>) -> Result<Vec<Value>, SchemaError> {
        let branches = sent.children("oneOf");
        let schemas = self.each(&branches, "oneOf", Sign::Is)?;
        let mut ways = vec![all_of(self.each(&branches, "oneOf", Sign::Not)?)];
        for (index, one) in schemas.iter().enumerate() {
            let others = &schemas[index + 1..];
            for other in others {
                ways.push(all_of(vec![self.copy(one, sent.path)?, self.copy(other, sent.path)?]));
            }
        }
        Ok(ways)
    }

    pub(super) fn conditional(&mut self, sent: &Sent<'s, '_>) -> Result<Option<Value>, SchemaError> {
        let Some(condition) = sent.child("if") else { return Ok(None) };
        let (then, otherwise) = (sent.child("then"), sent.child("else"));
        if then.is_none() && otherwise.is_none() && !counts_evaluated(sent) {
            return Ok(None);
        }
        let met = self.schema(&condition, "if", Sign::Is)?;
        // Where the failure is not known as a schema, the condition is met.
        let unmet = match self.negated(&condition, "if", Sign::Not) {
            Ok(unmet) => unmet,
            Err(_) if met != Value::Bool(false) => never(),
            Err(error) => {
                let reason = format!("the failure of `{}` is not supported as a condition", error.keyword);
                return Err(sent.error("if", reason));
            }
        };
        let branch = |this: &mut Self, at: Option<Place<'s>>, keyword| {
            at.map_or(Ok(Value::Bool(true)), |at| this.schema(&at, keyword, Sign::Is))
        };
        let then = branch(self, then, "then")?;
        let otherwise = branch(self, otherwise, "else")?;
        Ok(Some(any_of(vec![all_of(vec![met, then]), all_of(vec![unmet, otherwise])])))
    }

    pub(super) fn not_conditional(&mut self, sent: &Sent<'s, '_>) -> Result<Vec<Value>, SchemaError> {
        let Some(condition) = sent.child("if") else { return Ok(Vec::new()) };
        let mut ways = Vec::new();
        for (keyword, sign) in [("then", Sign::Is), ("else", Sign::Not)] {
            let Some(at) = sent.child(keyword) else { continue };
            let condition = self.schema(&condition, "if", sign)?;
            ways.push(all_of(vec![condition, self.schema(&at, keyword, Sign::Not)?]));
        }
        Ok(ways)
    }

    /// For each member with dependents: it is absent, or they hold.
    pub(super) fn dependencies(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
    ) -> Result<Vec<Value>, SchemaError> {
        let mut parts = Vec::new();
        for (name, at) in named_objects(sent, keyword)? {
            let consequence = match at.value.as_array() {
                Some(names) => self.object(sent.path, json!({"required": names})),
                None if *at.value == Value::Bool(true) => continue,
                None => self.schema(&at, keyword, Sign::Is)?,
            };
            let absent = self.object(sent.path, absent(name));
            let present = self.object(sent.path, json!({"required": [name]}));
            parts.push(any_of(vec![all_of(vec![present, consequence]), absent]));
        }
        Ok(parts)
    }

    pub(super) fn not_dependencies(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
    ) -> Result<Vec<Value>, SchemaError> {
        let mut ways = Vec::new();
        for (name, at) in named_objects(sent, keyword)? {
            let broken = match at.value.as_array() {
                Some(names) => any_of(names.iter().filter_map(Value::as_str).map(absent).collect()),
                None => self.schema(&at, keyword, Sign::Not)?,
            };
            ways.push(all_of(vec![json!({"type": "object", "required": [name]}), broken]));
        }
        Ok(ways)
    }
}

fn absent(name: &str) -> Value {
    json!({"properties": {name: false}})
}

fn named_objects<'s>(
    sent: &Sent<'s, '_>,
    keyword: &str,
) -> Result<Vec<(&'s String, Place<'s>)>, SchemaError> {
    if sent.map[keyword].is_object() {
        return Ok(sent.named(keyword));
    }
    Err(sent
        .error(keyword, format!("must be an object, not {}", super::super::read::kind(&sent.map[keyword]))))
}

/// Whether it matters which members a condition without consequence has looked at.
fn counts_evaluated(sent: &Sent<'_, '_>) -> bool {
    sent.map.contains_key("unevaluatedProperties") || sent.map.contains_key("unevaluatedItems")
}
