//! What shapes batches: the same for every worker, and for as long as a job lives.

use crate::error::Error;
use crate::split::InputFile;

/// What shapes batches; immutable while a generation lives (rule N2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The training files, in the order that splits refer to.
    pub files: Vec<InputFile>,
    /// About how many bytes a split has.
    pub split_bytes: u64,
    /// Examples a batch.
    pub batch_size: u32,
    /// Rows that are shuffled together inside a split; 0 and 1 keep the file's order.
    pub shuffle: u32,
    /// Seeds the order of splits and the shuffle inside them.
    pub seed: u64,
    /// SHA-256 of the settings that turn a line into an example (columns, transforms, bad rows).
    pub reading: [u8; 32],
}

impl Recipe {
    /// Compares what a worker would read with what the job reads (rule N2: the same for all).
    ///
    /// File names are for messages only: workers may keep the same bytes in different places.
    ///
    /// # Errors
    /// [`Error::RecipeMismatch`] that names the first difference, both sides.
    pub fn must_equal(&self, held: &Self) -> Result<(), Error> {
        let numbers = [
            ("batch size", self.batch_size.into(), held.batch_size.into()),
            ("seed", self.seed, held.seed),
            ("shuffle", self.shuffle.into(), held.shuffle.into()),
            ("split size in bytes", self.split_bytes, held.split_bytes),
            (
                "number of training files",
                self.files.len() as u64,
                held.files.len() as u64,
            ),
        ];
        for (what, asked, held) in numbers {
            same(what, asked.to_string(), held.to_string())?;
        }
        for (asked, held) in self.files.iter().zip(&held.files) {
            let what = |of: &str| format!("{of} of training file `{}`", held.name);
            same(
                &what("size in bytes"),
                asked.bytes.to_string(),
                held.bytes.to_string(),
            )?;
            same(&what("SHA-256"), hex(&asked.digest), hex(&held.digest))?;
            same(
                &what("divisible"),
                asked.divisible.to_string(),
                held.divisible.to_string(),
            )?;
        }
        let what = "settings of [data] that shape examples (SHA-256)";
        same(what, hex(&self.reading), hex(&held.reading))
    }
}

fn same(what: &str, asked: String, held: String) -> Result<(), Error> {
    if asked == held {
        return Ok(());
    }
    Err(Error::RecipeMismatch {
        what: what.into(),
        asked,
        held,
    })
}

/// The first half of a digest: enough to tell two apart, short enough for a message.
fn hex(digest: &[u8; 32]) -> String {
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: u64, divisible: bool) -> InputFile {
        InputFile {
            name: name.into(),
            bytes,
            digest: [7; 32],
            divisible,
        }
    }

    fn recipe() -> Recipe {
        Recipe {
            files: vec![file("a.csv", 10, true), file("b.csv", 20, true)],
            split_bytes: 5,
            batch_size: 512,
            shuffle: 100,
            seed: 1,
            reading: [1; 32],
        }
    }

    fn check(change: impl Fn(&mut Recipe), expected: &str) {
        let mut asked = recipe();
        change(&mut asked);
        let message = asked.must_equal(&recipe()).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
    }

    #[test]
    fn a_mismatch_names_the_first_difference_and_both_sides() {
        assert!(recipe().must_equal(&recipe()).is_ok());
        check(
            |r| r.batch_size = 9,
            "batch size: this config says 9, the job has 512;",
        );
        check(|r| r.seed = 2, "seed: this config says 2, the job has 1;");
        check(
            |r| r.shuffle = 0,
            "shuffle: this config says 0, the job has 100;",
        );
        check(
            |r| r.split_bytes = 6,
            "split size in bytes: this config says 6, the job has 5;",
        );
        check(
            |r| r.files.truncate(1),
            "number of training files: this config says 1, the job has 2;",
        );
        check(
            |r| r.files[1].bytes = 21,
            "size in bytes of training file `b.csv`: this config says 21, the job has 20;",
        );
        check(
            |r| r.files[0].digest[0] = 0xab,
            "SHA-256 of training file `a.csv`: this config says ab0707",
        );
        check(
            |r| r.files[0].divisible = false,
            "divisible of training file `a.csv`",
        );
        check(
            |r| r.reading[0] = 2,
            "settings of [data] that shape examples (SHA-256)",
        );
    }

    #[test]
    fn a_file_may_have_another_name_elsewhere() {
        let mut moved = recipe();
        moved.files[0].name = "elsewhere/a.csv".into();
        assert!(moved.must_equal(&recipe()).is_ok());
    }
}
