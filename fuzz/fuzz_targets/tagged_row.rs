#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    niwaki_fuzz::run(niwaki_types::hostile::TARGETS, "tagged_row", bytes);
});
