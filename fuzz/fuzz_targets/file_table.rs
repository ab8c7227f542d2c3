#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    niwaki_fuzz::run(niwaki_storage::hostile::TARGETS, "file_table", bytes);
});
