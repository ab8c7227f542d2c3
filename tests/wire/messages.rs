//! Messages drawn as clients send them, with damage to their bytes.

use support::Random;

/// Recorded messages of psql and pgbench.
const TRACES: [&str; 2] =
    [include_str!("../clients/psql.trace"), include_str!("../clients/pgbench.trace")];

/// Statements of any kind, beside the statements of the traces.
const TEXTS: [&str; 26] = [
    "",
    "select 1; select 2",
    "select $1::int4 + $2::int4",
    "select $1::text, $2::numeric",
    "select generate_series(1, 50)",
    "select repeat('x', 10000)",
    "select 1 / 0",
    "begin",
    "commit",
    "rollback",
    "savepoint s",
    "rollback to s",
    "insert into w values ($1, 'x')",
    "insert into w values (7, 'seven') returning id, note",
    "update w set note = note || 'x' where id < 3",
    "delete from w where id > 5",
    "copy w from stdin",
    "copy w from stdin (format csv)",
    "copy w from stdin (format binary)",
    "copy w to stdout (format binary)",
    "declare c cursor for select id from w order by id",
    "fetch 2 from c",
    "prepare p as select $1::int4",
    "execute p(3)",
    "listen a; notify a, 'x'",
    "set work_mem = '1MB'; reset all; discard all",
];

const NAMES: [&str; 4] = ["", "", "a", "b"];
const TYPES: [u32; 7] = [0, 0, 23, 25, 1700, 2249, 99_999];
const VALUES: [&[u8]; 8] =
    [b"", b"1", b"-7", b"x", b"\0\0\0\x01", b"\0\0\0\0\0\0\0\x05", b"\xff\xfe", b"a\0b"];
const LINES: [&[u8]; 8] = [
    b"30\tx\n",
    b"31,x\n",
    b"\\.\n",
    b"x\n",
    b"32\ty",
    b"\"33\",\"",
    b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0",
    b"\0\x02\0\0\0\x04\0\0\0\x22\0\0\0\x01z\xff\xff",
];

/// Lengths and counts that decoders may get wrong.
const EDGES: [u32; 12] = [
    0,
    1,
    3,
    4,
    5,
    0xffff,
    0x0001_0000,
    0x0400_0000,
    0x0400_0001,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
];

const PROTOCOL_3: u32 = 196_608;
/// Protocol codes. Version 3.0 comes as often as not. The others are TLS, GSSAPI, a cancel request,
/// and versions that no program speaks.
const CODES: [u32; 10] = [
    PROTOCOL_3, PROTOCOL_3, PROTOCOL_3, PROTOCOL_3, 80_877_103, 80_877_104, 80_877_102, 131_072,
    196_610, 262_144,
];

pub(crate) fn pick<'a, T>(list: &'a [T], random: &mut Random) -> &'a T {
    &list[place(list.len(), random)]
}

/// Returns a number below `bound`, which is not 0.
fn place(bound: usize, random: &mut Random) -> usize {
    usize::try_from(random.below(bound as u64)).expect("below a usize")
}

/// Returns every statement that may be drawn.
pub(crate) fn texts() -> Vec<String> {
    let lines = TRACES.iter().flat_map(|trace| trace.lines());
    let sent = lines.filter_map(|line| {
        let text = match line.split_at_checked(4)? {
            ("> Q ", text) => text,
            ("> P ", rest) => rest.split_once('|')?.1,
            _ => return None,
        };
        Some(text.replace("\\n", "\n").replace("\\t", "\t"))
    });
    sent.chain(TEXTS.iter().map(|text| (*text).to_owned())).collect()
}

/// Returns a packet without a type: its length, a code, the rest.
fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
    let length = u32::try_from(rest.len() + 8).expect("a short packet");
    [&length.to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
}

/// Returns the start of a session.
pub(crate) fn startup() -> Vec<u8> {
    packet(PROTOCOL_3, b"user\0postgres\0database\0postgres\0\0")
}

/// Returns a message: its type, its length, the rest.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short message");
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

fn cstring(text: impl AsRef<str>) -> Vec<u8> {
    [text.as_ref().as_bytes(), b"\0"].concat()
}

/// Returns the first packet of a connection, or bytes in its place.
pub(crate) fn opening(random: &mut Random) -> Vec<u8> {
    let rest: &[u8] = match random.below(4) {
        0 => b"user\0postgres\0\0",
        1 => b"user\0nobody\0database\0nothing\0work_mem\0-3\0\0",
        2 => b"user\0postgres\0options\0-c datestyle=German\0replication\0true\0\0",
        _ => b"\0\0\0\x01\0\0\0\x02",
    };
    let mut bytes = packet(*pick(&CODES, random), rest);
    if random.below(3) == 0 {
        bytes.extend(startup());
    }
    bytes
}

fn short(number: usize) -> [u8; 2] {
    u16::try_from(number).expect("a few").to_be_bytes()
}

/// Draws formats of values: none, one for all, one for each, or a wrong number.
fn formats(values: usize, random: &mut Random) -> Vec<u8> {
    let count = *pick(&[0, 0, 1, values, values + 1], random);
    let mut body = short(count).to_vec();
    for _ in 0..count {
        body.extend(short(*pick(&[0, 0, 0, 1, 1, 2], random)));
    }
    body
}

fn parse(texts: &[String], random: &mut Random) -> Vec<u8> {
    let mut body = cstring(pick(&NAMES, random));
    body.extend(cstring(pick(texts, random)));
    let count = place(3, random);
    body.extend(short(count));
    for _ in 0..count {
        body.extend(pick(&TYPES, random).to_be_bytes());
    }
    message(b'P', &body)
}

fn bind(random: &mut Random) -> Vec<u8> {
    let mut body = cstring(pick(&NAMES, random));
    body.extend(cstring(pick(&NAMES, random)));
    let count = place(4, random);
    body.extend(formats(count, random));
    body.extend(short(count));
    for _ in 0..count {
        if random.below(5) == 0 {
            body.extend([0xff_u8; 4]);
            continue;
        }
        let value = pick(&VALUES, random);
        body.extend(u32::try_from(value.len()).expect("a short value").to_be_bytes());
        body.extend(*value);
    }
    body.extend(formats(2, random));
    message(b'B', &body)
}

/// Returns a message of a session.
pub(crate) fn draw(texts: &[String], random: &mut Random) -> Vec<u8> {
    let named = |kind: u8, random: &mut Random| {
        let mut body = vec![*pick(b"SP", random)];
        body.extend(cstring(pick(&NAMES, random)));
        message(kind, &body)
    };
    match random.below(20) {
        0..=4 => message(b'Q', &cstring(pick(texts, random))),
        5..=7 => parse(texts, random),
        8..=10 => bind(random),
        11 => named(b'D', random),
        12 => {
            let mut body = cstring(pick(&NAMES, random));
            body.extend(pick(&[0_u32, 0, 1, 2, 0xffff_ffff], random).to_be_bytes());
            message(b'E', &body)
        }
        13 => named(b'C', random),
        14 => message(b'S', b""),
        15 => message(b'H', b""),
        16 | 17 => message(b'd', pick::<&[u8]>(&LINES, random)),
        18 => match random.below(2) {
            0 => message(b'c', b""),
            _ => message(b'f', b"enough\0"),
        },
        _ => match random.below(4) {
            0 => message(b'F', b"\0\0\x04\xd2\0\x01\0\0\0\x01\0\0\0\x01x\0\0"),
            1 => message(b'p', b"secret\0"),
            2 => message(b'X', b""),
            _ => message(u8::try_from(random.below(256)).expect("a byte"), b"\0\0\0\0"),
        },
    }
}

/// Longest part that is moved about, in bytes.
const PART_BYTES: usize = 200;

/// Does up to five damages to bytes; in one of six cases none.
pub(crate) fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = place(bytes.len(), random);
        let to = at + place(PART_BYTES.min(bytes.len() - at), random) + 1;
        let mut write = |new: &[u8]| {
            for (old, new) in bytes[at..].iter_mut().zip(new) {
                *old = *new;
            }
        };
        match random.below(10) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => write(&[*pick(&[0, 1, 0x7f, 0x80, 0xff], random)]),
            3 | 4 => write(&pick(&EDGES, random).to_be_bytes()),
            5 => write(&pick(&[0_u16, 1, 0x7fff, 0xffff], random).to_be_bytes()),
            6 => bytes.truncate(at),
            7 => drop(bytes.drain(at..to)),
            8 => {
                let part = bytes[at..to].to_vec();
                let into = place(bytes.len(), random);
                drop(bytes.splice(into..into, part));
            }
            _ => {
                let count = 1_usize << random.below(18);
                let byte = u8::try_from(random.below(256)).expect("a byte");
                drop(bytes.splice(at..at, std::iter::repeat_n(byte, count)));
            }
        }
    }
}
