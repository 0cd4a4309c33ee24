//! The modules at the crate's root depend downwards only.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Asked for when the test runs: several checkouts share a build, and the one that made it may be gone.
fn source() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("src")
}

/// The short names of `lib.rs` (`use types::{error, ...}`), with the module that each stands for.
fn short_names() -> BTreeMap<String, String> {
    let text = fs::read_to_string(source().join("lib.rs")).unwrap();
    let uses = text.split("\nuse ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let mut names = BTreeMap::new();
    for line in uses {
        let (module, list) = line.split_once("::").expect("a name of a module");
        for name in list.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')) {
            names.insert(name.to_owned(), module.to_owned());
        }
    }
    names
}

fn collect(path: &Path, module: &str, names: &BTreeMap<String, String>, imports: &mut Imports) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), module, names, imports);
        }
        return;
    }
    // Tests of a module may use any other.
    let is_test = |part: Component| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name);
    if path.strip_prefix(source()).unwrap().components().any(is_test) {
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    for rest in lines.join("\n").split("crate::").skip(1) {
        for name in modules_at(rest) {
            let target = names.get(name).map_or(name, String::as_str);
            if target != module {
                imports.entry(module.to_owned()).or_default().insert(target.to_owned());
            }
        }
    }
}

/// The modules that a path names, or a list of paths in braces. What has capitals is re-exported at the
/// root, for users of the crate.
fn modules_at(path: &str) -> Vec<&str> {
    let is_in_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let list = path.strip_prefix('{').map_or_else(Vec::new, |list| {
        let mut depth = 0;
        let in_list = |letter: char| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            letter == '}' && depth < 0
        };
        list.split(in_list).next().unwrap().split(',').map(str::trim).collect()
    });
    let paths = if list.is_empty() { vec![path] } else { list };
    let names = paths.into_iter().map(|path| path.split(|letter| !is_in_name(letter)).next().unwrap());
    names
        .filter(|name| !name.is_empty() && name.chars().all(|letter| letter.is_lowercase() || letter == '_'))
        .collect()
}

fn imports() -> Imports {
    let names = short_names();
    let mut imports = Imports::new();
    for entry in fs::read_dir(source()).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if module != "lib" {
            collect(&path, &module, &names, &mut imports);
        }
    }
    imports
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut imports = imports();
    assert!(imports["engine"].contains("types"), "the imports were not found: {imports:?}");
    // Takes out what imports nothing that is left: what stays at the end is in a circle, or above one.
    loop {
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        for targets in imports.values_mut() {
            targets.retain(|target| left.contains(target));
        }
        let before = imports.len();
        imports.retain(|_, targets| !targets.is_empty());
        if imports.len() == before {
            break;
        }
    }
    assert!(imports.is_empty(), "a circle is among {imports:#?}");
}

#[test]
fn plain_data_and_the_scheduler_are_at_the_bottom() {
    let imports = imports();
    assert_eq!(imports.get("types"), None);
    let allowed = BTreeSet::from(["types".to_owned()]);
    let scheduler = imports.get("scheduler").cloned().unwrap_or_default();
    assert!(scheduler.is_subset(&allowed), "{scheduler:?}");
}
