//! The reader and the table of weights, on whole, cut and damaged files.

use gguf_rs_lite::Gguf;
use gleed::Model;
use gleed_miri::random::Rng;

fn read(file: &[u8]) -> usize {
    let Ok(gguf) = Gguf::parse(file) else { return 0 };
    let keys: usize =
        gguf.metadata().map(|(key, value)| key.len() + value.as_array().map_or(0, |array| array.iter().count())).sum();
    let bytes = gguf.tensors().map(|tensor| tensor.data().iter().map(|&byte| usize::from(byte)).sum::<usize>());
    keys + bytes.sum::<usize>() + Model::open(file).map_or(0, |model| model.fingerprint() as usize & 1)
}

#[test]
fn whole() {
    assert!(read(gleed_miri::model()) > 1000);
}

#[test]
fn cut_and_damaged() {
    let file = gleed_miri::model();
    let mut random = Rng::new(1);
    for _ in 0..12 {
        // A copy with an allocation of its own, so that Miri sees its end.
        read(&file[..random.below(file.len())].to_vec());
        let mut damaged = file.to_vec();
        for _ in 0..3 {
            let at = random.below(1200);
            damaged[at] = random.u64() as u8;
        }
        read(&damaged);
    }
}
