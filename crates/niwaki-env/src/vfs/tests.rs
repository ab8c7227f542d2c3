use super::*;

/// Reads several places of a file by a ring: whole, at the end, and beyond it.
fn reads_by_themselves(vfs: &dyn Vfs) {
    // Without a ring of the system there is nothing to test.
    let Ok(ring) = vfs.read_ring() else { return };
    let file = vfs.open("ring", OpenMode::CreateNew).unwrap();
    let bytes: Vec<u8> = (0..100_u8).collect();
    file.write_at(&bytes, 0).unwrap();
    assert!(ring.complete(false).unwrap().is_none());
    for round in 0..3 {
        let places = [0, 50, 95, 200];
        let mut buffers = [[[7_u8; 4]; 2]; 4];
        let halves = buffers.each_mut().map(|[one, two]| [&mut one[..], &mut two[..]]);
        for (token, (halves, place)) in halves.into_iter().zip(places).enumerate() {
            let mut slices = halves.map(IoSliceMut::new);
            // SAFETY: the buffers live beyond the loop below, which takes all ends.
            unsafe { ring.add(token, Arc::clone(&file), &mut slices, place) };
        }
        if round > 0 {
            ring.submit().unwrap();
        }
        let mut got = [None; 4];
        for _ in 0..4 {
            let done = ring.complete(true).unwrap().unwrap();
            assert!(got[done.token].replace(done.result.unwrap()).is_none());
        }
        assert_eq!(got, [Some(8), Some(8), Some(5), Some(0)]);
        assert_eq!(buffers[0], [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(buffers[1], [[50, 51, 52, 53], [54, 55, 56, 57]]);
        assert_eq!(buffers[2], [[95, 96, 97, 98], [99, 7, 7, 7]]);
        assert_eq!(buffers[3], [[7; 4]; 2]);
        assert!(ring.complete(false).unwrap().is_none());
    }
    vfs.remove("ring").unwrap();
}

/// Checks the duties of every file system.
pub(super) fn behaves(vfs: &dyn Vfs) {
    vfs.create_dir("").unwrap();
    reads_by_themselves(vfs);
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
    // Any number of bytes may be in memory; those that are must be right.
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
    assert!(lock.is_held().unwrap());
    assert!(vfs.lock_shared("base/lock").is_err());
    drop(lock);
    drop(vfs.lock_exclusive("base/lock").unwrap());
}

/// Readers share a lock, and exclude an exclusive holder.
fn locks_are_shared(vfs: &dyn Vfs) {
    let readers = [vfs.lock_shared("lock").unwrap(), vfs.lock_shared("lock").unwrap()];
    for reader in readers {
        let refused = vfs.lock_exclusive("lock").err().expect("a reader has it");
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(reader);
    }
    drop(vfs.lock_exclusive("lock").unwrap());
}

#[test]
fn memory_behaves() {
    behaves(&MemoryVfs::new());
    locks_are_shared(&MemoryVfs::new());
}

#[test]
fn an_overlay_behaves() {
    behaves(&OverlayVfs::new(Arc::new(MemoryVfs::new())));
}

/// A file was cut inside of zeros on top, and had the bytes below again in front of the cut.
#[test]
fn an_overlay_cuts_zeros() {
    let below = Arc::new(MemoryVfs::new());
    below.open("a", OpenMode::CreateNew).unwrap().write_at(&[7; 10_000], 0).unwrap();
    let overlay = OverlayVfs::new(below);
    let file = overlay.open("a", OpenMode::Existing).unwrap();
    file.write_at(&[0; 10_000], 0).unwrap();
    let mut buf = [9; 10_000];
    for (len, there) in [(5_000, 5_000), (100, 100), (6_000, 6_000)] {
        file.set_len(len).unwrap();
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), there);
        assert!(buf[..there].iter().all(|byte| *byte == 0), "{len}");
    }
}

/// Changes through an overlay are visible in it, and the files below stay as they were.
#[test]
fn an_overlay_changes_nothing_below() {
    let mut seed = 7_u64;
    let mut draw = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for _ in 0..50 {
        let below = Arc::new(MemoryVfs::new());
        below.create_dir("base").unwrap();
        for name in ["base/a", "base/b", "c"] {
            let bytes: Vec<u8> = (0..draw(20_000)).map(|_| draw(256) as u8).collect();
            below.open(name, OpenMode::CreateNew).unwrap().write_at(&bytes, 0).unwrap();
        }
        let (before, model) = (below.dump(), below.fork());
        let overlay = OverlayVfs::new(Arc::clone(&below) as Arc<dyn Vfs>);
        for _ in 0..60 {
            let name = ["base/a", "base/b", "c", "base/new"][draw(4) as usize];
            let other = ["base/a", "d"][draw(2) as usize];
            let (kind, at, byte) = (draw(16), draw(25_000), draw(2) as u8);
            let count = [1, 100, 4096, 12_000][draw(4) as usize];
            // A whole chunk of zeros is kept in another way.
            let place = [at, at & !4095][draw(2) as usize];
            let from = [0, at][draw(2) as usize];
            let act = |vfs: &dyn Vfs| -> io::Result<Vec<u8>> {
                match kind {
                    0 => return vfs.remove(name).map(|()| Vec::new()),
                    1 => return vfs.rename(name, other).map(|()| Vec::new()),
                    _ => {}
                }
                let file = vfs.open(name, OpenMode::CreateIfAbsent)?;
                match kind {
                    2 | 3 => file.set_len(at)?,
                    4 => file.allocate(at, count as u64)?,
                    5 => file.sync_data()?,
                    6 => file.write_at(&[], at)?,
                    _ => file.write_at(&vec![byte; count], place)?,
                }
                let mut read = vec![0; file.len()? as usize + 1];
                let got = file.read_at(&mut read, from)?;
                read.truncate(got);
                Ok(read)
            };
            let [on_top, plain] =
                [&overlay as &dyn Vfs, &model].map(|vfs| act(vfs).map_err(|error| error.kind()));
            assert!(on_top == plain, "{kind} of {name}, at {at}, read from {from}");
        }
        for (path, bytes) in model.dump() {
            let file = overlay.open(&path, OpenMode::Existing).unwrap();
            let mut read = vec![0; bytes.len() + 1];
            assert_eq!(file.read_at(&mut read, 0).unwrap(), bytes.len(), "{path}");
            assert!(read[..bytes.len()] == bytes, "{path}");
        }
        for folder in ["", "base"] {
            assert_eq!(overlay.list(folder).unwrap(), model.list(folder).unwrap());
        }
        assert_eq!(below.dump(), before);
    }
}

#[test]
fn the_system_behaves() {
    use std::os::unix::fs::PermissionsExt;
    let root = std::env::temp_dir().join(format!("niwaki-env-{}", std::process::id()));
    let vfs = OsVfs::new(&root);
    behaves(&vfs);
    locks_are_shared(&vfs);
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
