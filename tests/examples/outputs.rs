//! Files that examples write. They never overwrite their inputs, and appear only when they are whole.

use std::path::Path;

use crate::{DEMO, refused, run, run_with_input, scratch, scratch_with};

/// A folder of its own with the demo model and a text.
struct Scene {
    folder: String,
    model: String,
    text: String,
}

impl Scene {
    fn new(name: &str) -> Self {
        let folder = scratch(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let model = scratch_with(&format!("{name}/model.gguf"), DEMO);
        let text = scratch_with(&format!("{name}/text.txt"), b"Once upon a time\n");
        Self { folder: folder.to_str().unwrap().to_owned(), model, text }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.folder).unwrap();
        let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Checks that no input has changed and no temporary file is left.
    fn is_untouched(&self, what: &str) {
        assert!(std::fs::read(&self.model).unwrap() == DEMO, "{what}: the model has changed");
        assert_eq!(std::fs::read(&self.text).unwrap(), b"Once upon a time\n", "{what}");
        assert!(self.files().iter().all(|name| !name.contains("tmp")), "{what}: {:?}", self.files());
    }
}

#[test]
fn nothing_is_written_over_what_is_read() {
    let scene = Scene::new("over");
    let (model, text) = (&*scene.model, &*scene.text);
    let mut names = vec![model.to_owned(), scene.path("./model.gguf")];
    #[cfg(unix)]
    {
        let (symbolic, hard) = (scene.path("symbolic.gguf"), scene.path("hard.gguf"));
        std::os::unix::fs::symlink("model.gguf", &symbolic).unwrap();
        std::fs::hard_link(model, &hard).unwrap();
        names.extend([symbolic, hard]);
    }
    let (of_model, of_lab) = (["--model", model], ["--model", model, "--quick", "--out", &scene.folder]);
    for name in &names {
        let over = |example, args: &[&str], option: &str| {
            let args = [args, &of_model, &[option, name]].concat();
            refused(example, &args, "which is read");
            scene.is_untouched(&format!("{example} {option} {name}"));
        };
        over("generate", &["-n", "2", "Once"], "--json");
        over("generate", &["-n", "2", "Once"], "--trace");
        over("logits", &["--ids", "1"], "--out");
        over("perplexity", &[], "--json");
        over("bench", &["--prompt", "2", "--gen", "0"], "--json");
        over("bench", &["--prompt", "2", "--gen", "0"], "--plot");
        over("bench", &["--prompt", "2", "--gen", "0"], "--trace");
        over("frame_budget", &["--tokens", "2"], "--svg");
        over("embed", &["--ids", "1"], "--json");
        over("inspect", &[], "--emit-header");
        over("chat", &["-m", "Once"], "--trace");
        refused("bench", &["--report", name, model], "which is read");
        refused("kvlab", &[&["memory"], &of_lab[..], &["--json", name]].concat(), "which is read");
        refused("convert", &[model, name], "which is read");
        let saved = run_with_input("chat", &of_model, format!("/save {name}\n").as_bytes());
        assert!(saved.err.contains("which is read"), "{}", saved.err);
        scene.is_untouched(name);
    }
    refused("generate", &["-n", "2", "-f", text, "--json", text], "which is read");
    refused("generate", &["-n", "2", "Once", "--grammar", text, "--json", text], "which is read");
    refused("generate", &["-n", "2", "Once", "--lora", text, "--json", text], "which is read");
    refused("embed", &["--text", text, "--json", text], "which is read");
    refused("perplexity", &["--text", text, "--json", text], "which is read");
    refused("kvlab", &[&["window", "--text", text], &of_lab[..], &["--json", text]].concat(), "which is read");
    refused("generate", &["-n", "2", "Once", "--json", &scene.folder], "it is a folder");
    scene.is_untouched("the text");
}

#[test]
fn what_is_refused_changes_no_file() {
    let scene = Scene::new("kept");
    let kept = scene.text.clone();
    let keeps = |example, args: &[&str]| {
        let run = run(example, args);
        assert!(matches!(run.code, Some(1 | 2)), "{example} {args:?}: {:?}", run.code);
        scene.is_untouched(&format!("{example} {args:?}"));
    };
    keeps("generate", &["--json", &kept, "--regex", "[a", "Once"]);
    keeps("generate", &["--trace", &kept, "--regex", "[a", "Once"]);
    keeps("generate", &["--json", &kept, "--stop", "", "Once"]);
    keeps("logits", &["--ids", "1,5000", "--out", &kept]);
    keeps("bench", &["--report", &kept, "/nowhere/at/all"]);
    keeps("bench", &["--json", &kept, "--threads", "0"]);
    keeps("make_model", &["--shape", "tiny", "--type", "q8_0", "--out", &scene.folder]);
    keeps("perplexity", &["--json", &kept, "--threads", "0"]);
}

/// An old file is replaced at once. If the output is a link, the file behind it is replaced.
#[cfg(unix)]
#[test]
fn whole_files_replace_others() {
    let scene = Scene::new("replaced");
    let (link, to) = (scene.path("link"), scene.path("to"));
    std::os::unix::fs::symlink("to", &link).unwrap();
    let is_link = || Path::new(&link).is_symlink();
    // In the first round the link leads nowhere.
    for _ in 0..2 {
        run("generate", &["-n", "2", "--json", &link, "Once"]).ok();
        assert!(is_link() && std::fs::read(&to).unwrap().starts_with(b"{"));
    }
    run("make_model", &["--shape", "tiny", "--type", "q8_0", "--out", &link]).ok();
    assert!(is_link() && std::fs::read(&to).unwrap().starts_with(b"GGUF"));
    run("convert", &[&scene.model, &link]).ok();
    assert!(is_link() && std::fs::read(&to).unwrap().starts_with(b"GGUF"));
    assert_eq!(scene.files(), ["link", "model.gguf", "text.txt", "to"]);
}

/// Streams are written directly, but a model needs a file.
#[cfg(unix)]
#[test]
fn streams_stay_streams() {
    let scene = Scene::new("streams");
    let told = run("generate", &["-n", "2", "--temp", "0", "--json", "/dev/stdout", "Once"]).ok();
    assert!(told.trim_end().ends_with('}') && told.contains("{\""), "{told}");
    run("generate", &["-n", "2", "--json", "/dev/null", "--trace", "/dev/null", "Once"]).ok();
    run("logits", &["--ids", "1", "--out", "/dev/null"]).ok();
    let header = run("inspect", &["--emit-header", "/dev/stdout"]).ok();
    assert!(header.contains("GLEED_ARENA_BYTES"), "{header}");
    assert!(run("generate", &["-n", "2", "--json", "/dev/full", "Once"]).code != Some(0) || !cfg!(target_os = "linux"));

    let fifo = scene.path("fifo");
    if std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()) {
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || std::fs::read_to_string(fifo).unwrap()
        });
        run("generate", &["-n", "2", "--json", &fifo, "Once"]).ok();
        assert!(reader.join().unwrap().starts_with('{'));
    }
    refused("make_model", &["--shape", "tiny", "--type", "q8_0", "--out", "/dev/null"], "it is no regular file");
    refused("make_model", &["--shape", "tiny", "--type", "q8_0", "--out", &fifo], "it is no regular file");
    refused("convert", &[&scene.model, "/dev/null"], "it is no regular file");
}

/// Two programs with the same output write files of their own, and the last one stays.
#[test]
fn two_programs_do_not_mix_their_files() {
    let scene = Scene::new("two");
    let (alone, both) = (scene.path("alone.gguf"), scene.path("both.gguf"));
    let make = |out: &str| run("make_model", &["--shape", "tiny", "--type", "f16", "--layers", "4", "--out", out]).ok();
    make(&alone);
    std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| make(&both))));
    assert!(std::fs::read(alone).unwrap() == std::fs::read(both).unwrap());
    assert_eq!(scene.files(), ["alone.gguf", "both.gguf", "model.gguf", "text.txt"]);
}
