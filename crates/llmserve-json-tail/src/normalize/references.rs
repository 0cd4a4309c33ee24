//! Where a `$ref` leads: to a JSON pointer, an anchor or an `$id` within the schema.

use std::collections::HashMap;

use serde_json::Value;

use super::super::keywords::for_each_subschema;
use super::positive::Draft;

/// The names that parts of a schema have.
pub(super) struct References {
    /// JSON pointers of the subschemas with an `$id`, the root included, and their URIs. Outer ones come first.
    resources: Vec<(String, String)>,
    /// JSON pointers by resource and anchor.
    anchors: HashMap<(usize, String), String>,
    /// How many dynamic anchors have a name; `$recursiveAnchor` has the empty one.
    dynamic: HashMap<String, usize>,
}

impl References {
    pub(super) fn new(root: &Value) -> Self {
        let mut new = Self { resources: Vec::new(), anchors: HashMap::new(), dynamic: HashMap::new() };
        new.resources.push((String::new(), String::new()));
        let is_old = Draft::of(root) == Draft::UpTo7;
        for_each_subschema(root, |pointer, members| {
            let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
            // Before draft 2019-09, a fragment is an anchor.
            let id = text("$id").or_else(|| text("id").filter(|_| !members.contains_key("properties")));
            // Up to draft 7, nothing counts beside `$ref`.
            let is_beside = is_old && members.contains_key("$ref");
            if let Some(id) = id
                .filter(|_| !is_beside)
                .map(|id| id.strip_suffix('#').unwrap_or(id))
                .filter(|id| !id.is_empty())
            {
                new.add_id(pointer, id);
            }
            let resource = new.resource_at(pointer);
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = text(keyword) {
                    new.anchors.insert((resource, name.to_owned()), pointer.to_owned());
                }
            }
            if let Some(name) = text("$dynamicAnchor") {
                *new.dynamic.entry(name.to_owned()).or_default() += 1;
            }
            if members.get("$recursiveAnchor") == Some(&Value::Bool(true)) {
                *new.dynamic.entry(String::new()).or_default() += 1;
            }
        });
        new
    }

    fn add_id(&mut self, pointer: &str, id: &str) {
        let resource = self.resource_at(pointer);
        if let Some(anchor) = id.strip_prefix('#') {
            self.anchors.insert((resource, anchor.to_owned()), pointer.to_owned());
            return;
        }
        let uri = join(&self.resources[resource].1, id);
        if pointer.is_empty() {
            self.resources[0].1 = uri;
        } else {
            self.resources.push((pointer.to_owned(), uri));
        }
    }

    /// The innermost resource that `path` lies in.
    fn resource_at(&self, path: &str) -> usize {
        let is_around = |(pointer, _): &(String, String)| {
            path.strip_prefix(pointer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.resources.iter().rposition(is_around).unwrap_or(0)
    }

    /// The JSON pointer that `reference` at `path` means, or why there is none.
    pub(super) fn resolve(&self, root: &Value, path: &str, reference: &str) -> Result<String, &'static str> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let mut resource = self.resource_at(path);
        if !uri.is_empty() {
            let uri = join(&self.resources[resource].1, uri);
            let found = self.resources.iter().position(|(_, known)| *known == uri);
            resource = found.ok_or("points outside the schema, which is not supported")?;
        }
        let base = &self.resources[resource].0;
        let fragment = decoded(fragment).ok_or("is not a valid reference")?;
        let pointer = match fragment.as_str() {
            "" | "/" => base.clone(),
            pointer if pointer.starts_with('/') => format!("{base}{pointer}"),
            anchor => {
                let known = self.anchors.get(&(resource, anchor.to_owned()));
                known.cloned().ok_or("names an anchor that the schema does not have")?
            }
        };
        if root.pointer(&pointer).is_none() { Err("points to nothing") } else { Ok(pointer) }
    }

    /// Whether a dynamic reference to `name` leads where a plain one does, whatever the way to it.
    pub(super) fn is_static(&self, name: &str) -> bool {
        self.dynamic.get(name).is_none_or(|&count| count == 1)
    }

    pub(super) fn num_resources(&self) -> usize {
        self.resources.len()
    }
}

/// A URI reference against its base, without dot segments.
fn join(base: &str, reference: &str) -> String {
    let scheme = reference.split(':').next().unwrap_or_default();
    let is_absolute = scheme.len() < reference.len()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if is_absolute || base.is_empty() {
        return reference.to_owned();
    }
    let host = base.find("://").map_or(0, |at| at + 3);
    let path = base[host..].find('/').map_or(base.len(), |at| host + at);
    if reference.starts_with('/') {
        return format!("{}{reference}", &base[..path]);
    }
    let end = base[path..].rfind('/').map_or(path, |at| path + at);
    format!("{}/{reference}", &base[..end])
}

/// A fragment without its percent-encoding.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn assert_leads(root: &Value, from: &str, reference: &str, expected: &str) {
        let met = References::new(root).resolve(root, from, reference);
        assert_eq!(met.as_deref(), Ok(expected), "{reference}");
    }

    #[test]
    fn pointers_are_decoded() {
        let root =
            json!({"$defs": {"a/b": {}, "m~n": {}, "p%q": {}, "sp ace": {}, "é": {}, "List<string>": {}}});
        for (reference, expected) in [
            ("#/$defs/a~1b", "/$defs/a~1b"),
            ("#/$defs/m~0n", "/$defs/m~0n"),
            ("#/$defs/p%25q", "/$defs/p%q"),
            ("#/$defs/sp%20ace", "/$defs/sp ace"),
            ("#/$defs/%C3%A9", "/$defs/é"),
            ("#/$defs/é", "/$defs/é"),
            ("#/$defs/List%3Cstring%3E", "/$defs/List<string>"),
            ("#", ""),
        ] {
            assert_leads(&root, "", reference, expected);
        }
    }

    #[test]
    fn ids_and_anchors_are_found() {
        let root = json!({"$id": "http://h/dir/root.json", "$defs": {
            "a": {"$anchor": "here"},
            "b": {"$id": "b.json", "$defs": {"c": {"$anchor": "here"}}},
            "d": {"$id": "#old"},
        }});
        for (from, reference, expected) in [
            ("", "#here", "/$defs/a"),
            ("/$defs/b", "#here", "/$defs/b/$defs/c"),
            ("", "b.json", "/$defs/b"),
            ("", "b.json#here", "/$defs/b/$defs/c"),
            ("", "/dir/b.json#/$defs/c", "/$defs/b/$defs/c"),
            ("/$defs/b/$defs/c", "#/$defs/c", "/$defs/b/$defs/c"),
            ("/$defs/b", "http://h/dir/root.json#old", "/$defs/d"),
        ] {
            assert_leads(&root, from, reference, expected);
        }
    }

    #[test]
    fn what_is_not_there_has_a_reason() {
        let root = json!({"$defs": {}});
        for reference in ["#/$defs/a", "#a", "other.json", "http://h/#", "#/%zz"] {
            assert!(References::new(&root).resolve(&root, "", reference).is_err(), "{reference}");
        }
    }
}
