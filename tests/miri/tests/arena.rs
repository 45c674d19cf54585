//! Sections of an arena do not overlap, and two threads fill the tiles of a matrix in one of them.

use gleed::mem::{Arena, Matrix, MemoryError};
use gleed_miri::Memory;

fn carve<'a>(arena: &mut Arena<'a>) -> Result<(&'a mut [f32], &'a mut [u64], &'a mut [u8]), MemoryError> {
    Ok((arena.slice("floats", 30)?, arena.slice("words", 5)?, arena.slice("bytes", 7)?))
}

#[test]
fn sections_are_used_at_the_same_time() {
    let mut measuring = Arena::measuring();
    carve(&mut measuring).unwrap();
    let mut memory = Memory::new(measuring.used());
    let (floats, words, bytes) = carve(&mut Arena::new(memory.bytes()).unwrap()).unwrap();
    let tiles = Matrix::with_stride(floats, 4, 6, 8).unwrap().tiles(2, 3, 0..9).unwrap();
    let fill = || {
        while let Some(mut tile) = tiles.next() {
            let index = tile.index() as f32;
            tile.rows().for_each(|row| tile.row_mut(row).unwrap().fill(index));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(fill);
        scope.spawn(fill);
        words.fill(7);
        bytes.fill(8);
    });
    // Tiles 0 and 1 hold the first columns, and tiles 2 and 3 the last ones.
    assert_eq!((floats[0], floats[29], words[4], bytes[6]), (0.0, 3.0, 7, 8));
}

#[test]
fn too_small() {
    let mut memory = Memory::new(192);
    assert!(carve(&mut Arena::new(memory.bytes()).unwrap()).is_err());
    assert!(Arena::new(&mut memory.bytes()[1..]).is_err());
}
