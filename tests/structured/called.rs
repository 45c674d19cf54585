//! Calls that the demo model writes, although it has never seen one. They are read back and checked by a validator.

use gleed::grammar::{Calls, Options, Source, ToolChoice, Whitespace};
use gleed::tools::CallFormat;

use super::Compiled;
use super::generated::with_writer;
use super::tools::{lists, read};

#[test]
fn the_demo_model_calls_tools_in_all_formats() {
    with_writer(|writer| {
        let (mut written, mut seed) = (0, 0);
        for &format in CallFormat::ALL {
            for list in lists(format) {
                seed += 1;
                let calls =
                    Calls { choice: ToolChoice::Required, parallel: false, ..Calls::new(list.as_bytes(), format) };
                let source = Source::Tools(calls);
                let options =
                    Options { whitespace: Whitespace::Spaced, close: true, closed: true, ..Options::default() };
                let mut compiled = Compiled::new(source, &options).expect("compiles");
                let text = compiled.with(source, &options, |grammar| writer.write(grammar, seed, 200));
                let Some(text) = text else { continue };
                assert!(text.is_complete, "{format}: {}", text.text);
                assert_eq!(read(&text.text, &calls), 1, "{format}: {}", text.text);
                written += 1;
            }
        }
        println!("{written} calls");
        assert!(written > 40);
    });
}
