//! Where files are read and written, and who may.

use super::*;

#[test]
fn files_that_cannot_be_read_are_named() {
    let saved = Saved::new();
    let before = saved.session.tokens();
    let folder = saved.folder.path();
    let cases = [
        (folder.join("missing"), "not_found"),
        (folder.join("missing/file"), "not_found"),
        (saved.path.join("below a file"), "not_found"),
        (folder.to_path_buf(), "not_readable"),
        (folder.join("x".repeat(300)), "not_readable"),
        (PathBuf::from("nul\0inside"), "not_readable"),
        (PathBuf::new(), "not_found"),
    ];
    for (path, expected) in cases {
        let error = load(&saved.session, &path).unwrap_err();
        assert_eq!(error.reason.code(), expected, "{path:?}: {error}");
        assert!(!error.message.contains('/'), "{error}");
        assert_eq!(saved.session.tokens(), before);
        assert_eq!(reason(inspect_session(&path)), expected);
    }
}

#[test]
fn only_sessions_are_replaced() {
    let saved = Saved::new();
    let folder = saved.folder.path();
    for (name, bytes) in [("notes", "my notes".as_bytes()), ("empty", b""), ("short", b"\x93LLM")] {
        let path = saved.folder.write(name, bytes);
        assert_eq!(reason(save(&saved.session, &path)), "not_replaceable", "{name}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    assert_eq!(reason(save(&saved.session, folder)), "not_replaceable");
    // Also one that is damaged, or of another model.
    let path = saved.folder.write("half", &saved.bytes[..100]);
    save(&saved.session, &path).unwrap();
    assert_eq!(inspect_session(&path).unwrap().num_tokens as usize, saved.session.num_tokens());
    save(&saved.session, &saved.path).unwrap();
    let names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{names:?}");
}

#[cfg(unix)]
#[test]
fn a_session_is_for_its_owner_to_read() {
    use std::os::unix::fs::PermissionsExt;

    let saved = Saved::new();
    let mode = || fs::metadata(&saved.path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // Also where it replaces one that others may read.
    fs::set_permissions(&saved.path, fs::Permissions::from_mode(0o644)).unwrap();
    save(&saved.session, &saved.path).unwrap();
    assert_eq!(mode(), 0o600);
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let saved = Saved::new();
    let folder = saved.folder.path();
    let cases = [
        folder.join("missing/file"),
        saved.path.join("below a file"),
        folder.join("x".repeat(300)),
        PathBuf::from("nul\0inside"),
    ];
    for path in cases {
        let error = save(&saved.session, &path).unwrap_err();
        assert_eq!(error.reason.code(), "not_writable", "{path:?}: {error}");
        assert!(!error.message.contains('/'), "{error}");
    }
    let names = fs::read_dir(folder).unwrap().count();
    assert_eq!(names, 1, "nothing is left behind");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_pipes_are_not_opened() {
    let saved = Saved::new();
    let folder = saved.folder.path();
    let link = folder.join("link");
    std::os::unix::fs::symlink(&saved.path, &link).unwrap();
    go_on(&saved.engine, &saved.session, "more", 5);
    save(&saved.session, &link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let info = inspect_session(&saved.path).unwrap();
    assert_eq!(info.num_tokens as usize, saved.session.num_tokens());
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(reason(load(&saved.session, &pipe)), "not_readable");
    assert_eq!(reason(save(&saved.session, &pipe)), "not_replaceable");
}
