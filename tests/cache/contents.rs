//! A cache returns rows as they were given, rounded to the element type.

use gleed::cache::{CacheError, IMPORTED_TOKEN, LayerGroups};
use gleed::{KvKind, KvType};

use crate::{WIDTH, append, assert_holds, geometry, keeping, push_row, set_prefill, with_cache};

#[test]
fn rows_come_back() {
    for geometry in keeping() {
        with_cache(geometry, |cache| {
            let tokens: Vec<u32> = (0..37).collect();
            let seq = cache.open().unwrap();
            set_prefill(cache, seq, &tokens[..33]).unwrap();
            assert_holds(cache, seq, &tokens[..33]);
            tokens[33..].iter().for_each(|&token| push_row(cache, seq, token).unwrap());
            assert_holds(cache, seq, &tokens);
            assert_eq!(cache.token(seq, 0), Some(IMPORTED_TOKEN));
            assert_eq!(cache.token(seq, 37), None);
            // Rows that come one by one, and rows of the engine, are stored in the same way.
            let pushed = cache.open().unwrap();
            tokens[..18].iter().for_each(|&token| push_row(cache, pushed, token).unwrap());
            assert_holds(cache, pushed, &tokens[..18]);
            let appended = cache.open().unwrap();
            append(cache, appended, &tokens[..17]).unwrap();
            append(cache, appended, &tokens[17..20]).unwrap();
            assert_holds(cache, appended, &tokens[..20]);
            assert_eq!(cache.token(appended, 19), Some(19));
            cache.clear(seq).unwrap();
            set_prefill(cache, seq, &tokens[5..9]).unwrap();
            assert_holds(cache, seq, &tokens[5..9]);
        });
    }
}

#[test]
fn off_takes_no_rows_from_outside() {
    with_cache(geometry(KvKind::Off, KvType::F32, LayerGroups::ONE), |cache| {
        let seq = cache.open().unwrap();
        assert_eq!(set_prefill(cache, seq, &[1, 2]), Err(CacheError::NotKept));
        assert_eq!(push_row(cache, seq, 1), Err(CacheError::NotKept));
        append(cache, seq, &[1, 2, 3]).unwrap();
        assert_holds(cache, seq, &[1, 2, 3]);
    });
}

#[test]
fn a_value_too_large_for_f16() {
    let big = [65_520.0; WIDTH];
    with_cache(geometry(KvKind::Paged, KvType::F16, LayerGroups::ONE), |cache| {
        let seq = cache.open().unwrap();
        assert_eq!(cache.push_row(seq, 0, &big, &big), Err(CacheError::NonFinite));
        assert_eq!(cache.push_row(seq, 0, &[65_519.0; WIDTH], &[1e-9; WIDTH]), Ok(()));
    });
    with_cache(geometry(KvKind::Paged, KvType::F32, LayerGroups::ONE), |cache| {
        let seq = cache.open().unwrap();
        assert_eq!(cache.push_row(seq, 0, &big, &big), Ok(()));
    });
}
