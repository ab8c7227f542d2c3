use super::*;

/// What every file system must do.
pub(super) fn behaves(vfs: &dyn Vfs) {
    vfs.create_dir("").unwrap();
    vfs.create_dir("base/deep").unwrap();
    vfs.create_dir("base/deep").unwrap();
    assert!(vfs.exists("base").unwrap());
    assert!(!vfs.exists("base/a").unwrap());
    let missing = vfs.open("base/a", OpenMode::Existing).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let file = vfs.open("base/a", OpenMode::CreateNew).unwrap();
    assert_eq!(
        vfs.open("base/a", OpenMode::CreateNew).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert!(file.is_empty().unwrap());
    file.write_at(b"hello", 10_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_005);
    let mut buf = [7; 20];
    assert_eq!(file.read_at(&mut buf, 9_998).unwrap(), 7);
    assert_eq!(&buf[..7], b"\0\0hello");
    assert_eq!(file.read_at(&mut buf, 20_000).unwrap(), 0);
    file.set_len(10_002).unwrap();
    file.set_len(10_004).unwrap();
    assert_eq!(file.read_at(&mut buf, 10_000).unwrap(), 4);
    assert_eq!(&buf[..4], b"he\0\0");
    file.allocate(0, 5).unwrap();
    assert_eq!(file.len().unwrap(), 10_004);
    file.allocate(10_000, 1_000).unwrap();
    assert_eq!(file.len().unwrap(), 11_000);
    assert_eq!(file.read_at(&mut buf, 10_000).unwrap(), 20);
    assert_eq!(&buf[..4], b"he\0\0");
    let (mut one, mut two) = ([7; 3], [7; 4]);
    let mut slices = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
    assert_eq!(file.read_vectored_at(&mut slices, 9_999).unwrap(), 7);
    assert_eq!((&one, &two), (b"\0he", b"\0\0\0\0"));
    let mut slices = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
    assert_eq!(file.read_vectored_at(&mut slices, 10_996).unwrap(), 4, "up to the end");
    let mut slices = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
    // As many as are in memory, whatever that is; and those are right.
    let cached = file.read_cached_at(&mut slices, 9_999).unwrap();
    assert!(cached <= 7 && one[..cached.min(3)] == b"\0he"[..cached.min(3)]);
    file.sync_data().unwrap();
    vfs.open("base/b", OpenMode::CreateIfAbsent).unwrap().write_at(b"b", 0).unwrap();
    vfs.rename("base/b", "base/deep/c").unwrap();
    vfs.sync_dir("base").unwrap();
    vfs.sync_dir("base/deep").unwrap();
    assert_eq!(vfs.list("base").unwrap(), ["a"]);
    assert_eq!(vfs.list("base/deep").unwrap(), ["c"]);
    assert!(vfs.list("").unwrap().is_empty());
    vfs.rename("base/a", "base/deep/c").unwrap();
    assert_eq!(vfs.open("base/deep/c", OpenMode::Existing).unwrap().len().unwrap(), 11_000);
    vfs.remove("base/deep/c").unwrap();
    assert_eq!(vfs.remove("base/deep/c").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(file.len().unwrap(), 11_000, "an open file outlives its name");
    for bad in ["/etc/passwd", "../x", "a//b", "a/./b", "a\0b"] {
        let refused = vfs.open(bad, OpenMode::CreateIfAbsent).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{bad:?}");
    }
    let lock = vfs.lock_exclusive("base/lock").unwrap();
    let held = vfs.lock_exclusive("base/lock").err().expect("the lock is taken");
    assert_eq!(held.kind(), io::ErrorKind::WouldBlock);
    assert!(held.to_string().contains(&std::process::id().to_string()), "{held}");
    drop(lock);
    drop(vfs.lock_exclusive("base/lock").unwrap());
}

#[test]
fn memory_behaves() {
    behaves(&MemoryVfs::new());
}

#[test]
fn the_system_behaves() {
    use std::os::unix::fs::PermissionsExt;
    let root = std::env::temp_dir().join(format!("niwaki-env-{}", std::process::id()));
    let vfs = OsVfs::new(&root);
    behaves(&vfs);
    let file = vfs.open("mode", OpenMode::CreateNew).unwrap();
    drop(file);
    let mode =
        |path: &str| std::fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("mode"), 0o600);
    assert_eq!(mode("base"), 0o700);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_fork_is_independent() {
    let first = MemoryVfs::new();
    let file = first.open("a", OpenMode::CreateNew).unwrap();
    file.write_at(b"one", 0).unwrap();
    let second = first.fork();
    file.write_at(b"two", 0).unwrap();
    assert_eq!(first.dump()["a"], b"two");
    assert_eq!(second.dump()["a"], b"one");
}

#[test]
fn the_limit_of_open_files_is_as_high_as_it_may_be() {
    let first = raise_open_files_limit();
    assert!(first.is_none_or(|limit| limit > 0));
    assert_eq!(raise_open_files_limit(), first);
}
