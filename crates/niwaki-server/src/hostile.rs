//! Decoding of arbitrary bytes: the functions of [`TARGETS`] return a result or an error, and never
//! panic.
//!
//! [`niwaki_env::hostile`] and the targets under `fuzz/` generate the bytes.

use niwaki_env::hostile::Target;

use crate::wire::frontend::{Message, Startup, decode_startup, frame};

/// Decoders: each with its name, its valid seed inputs and its function.
pub const TARGETS: &[Target] = &[("wire", messages, wire), ("wire_startup", packets, startup)];

fn messages() -> Vec<Vec<u8>> {
    let framed = |kind: u8, body: &[u8]| {
        let length = (body.len() + 4) as u32;
        [&[kind][..], &length.to_be_bytes(), body].concat()
    };
    let bodies: [(u8, &[u8]); 13] = [
        (b'Q', b"select 1\0"),
        (b'P', b"s\0select $1\0\0\x01\0\0\0\x17"),
        (b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x04abcd\xff\xff\xff\xff\0\x01\0\0"),
        (b'D', b"Ss\0"),
        (b'D', b"Pp\0"),
        (b'E', b"p\0\0\0\0\x05"),
        (b'C', b"Ss\0"),
        (b'H', b""),
        (b'S', b""),
        (b'X', b""),
        (b'd', b"1\t2\n"),
        (b'c', b""),
        (b'f', b"why\0"),
    ];
    bodies.iter().map(|(kind, body)| framed(*kind, body)).collect()
}

/// Reads messages one after the other, as a session does.
fn wire(mut bytes: &[u8]) {
    // Ends: every message takes at least its header.
    while let Ok(Some(frame)) = frame(bytes) {
        assert!((5..=bytes.len()).contains(&frame.len()));
        match frame.read() {
            Ok(Message::Bind(mut bind)) => {
                let _ = bind.parameter_formats().map(|codes| codes.iter().count());
                for _ in 0..bind.count().unwrap_or(0) {
                    if bind.value().is_err() {
                        break;
                    }
                }
                let _ = bind.result_formats().map(|codes| codes.iter().count());
            }
            Ok(Message::Parse { types, .. }) => assert_eq!(types.iter().count(), types.len()),
            _ => {}
        }
        bytes = &bytes[frame.len()..];
    }
}

fn packets() -> Vec<Vec<u8>> {
    let packet = |code: u32, rest: &[u8]| {
        let length = (rest.len() + 8) as u32;
        [&length.to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
    };
    vec![
        packet(196_608, b"user\0a\0database\0b\0\0"),
        packet(80_877_103, b""),
        packet(80_877_102, b"\0\0\0\x01secret"),
    ]
}

fn startup(bytes: &[u8]) {
    if let Ok(Some((packet, used))) = decode_startup(bytes) {
        assert!((8..=bytes.len()).contains(&used));
        if let Startup::Session { parameters, .. } = packet {
            let _ = parameters.pairs();
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_bytes_are_survived() {
        niwaki_env::hostile::survive(super::TARGETS);
    }
}
