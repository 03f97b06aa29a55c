//! A start: which files are the log, how far each is whole, and where to go on.
//!
//! The newest header names the segment before it, that one the one before, and so on: this is the
//! chain. It ends at the segment whose predecessor was cut. The newest segment may be torn, since a
//! crash may have ended a write; every other was whole when the one after it was begun, up to the
//! length that is named there. The first thing in the chain that is not as it should be ends it:
//! what comes later is ignored, now and in later lives, whose segments name the place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracing::{error, info, warn};
use windlass_common::Error as CommonError;
use windlass_common::format::FormatError;
use windlass_common::format::log::{Scan, SegmentHeader, SegmentNumber, sweep};
use windlass_common::id::Lsn;
use windlass_common::runtime::{Change, Disk, at, create_folders};

use crate::error::Error;

use super::chain::Segment;
use super::cut::PARTIAL;

/// What a start found in the log.
#[derive(Debug)]
pub struct Recovered {
    /// The highest lsn that was ever seen, also behind damage; 0 without records.
    pub last: Lsn,
    /// Segments whose records can be replayed.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The first thing that is not as it was written. Later records are ignored.
    pub damage: Option<FormatError>,
    /// A write that a crash ended: nothing in it was acknowledged.
    pub torn: Option<FormatError>,
}

/// A log that was looked through.
pub(super) struct Found {
    pub segments: Vec<Segment>,
    /// The lsn of the next record.
    pub next: Lsn,
    /// The number of the next segment.
    pub number: SegmentNumber,
    pub recovered: Recovered,
}

/// What a file's first bytes said.
enum Head {
    Whole(SegmentHeader),
    /// The file was being created: nothing else can be in it.
    Torn(FormatError),
    Damaged(FormatError),
}

/// Looks through a folder, which is made if there is none.
pub(super) fn recover(disk: &dyn Disk, folder: &Path) -> Result<Found, Error> {
    create_folders(disk, folder)?;
    let files = list(disk, folder)?;
    let mut heads = BTreeMap::new();
    for (&number, path) in &files {
        heads.insert(number, head(disk, path)?);
    }
    let mut search = Search {
        disk,
        folder,
        files: &files,
        next: Lsn(1),
        damage: None,
        torn: None,
    };
    let chain = search.chain(heads);
    let segments = search.check(&chain)?;
    search.look_behind(segments.last().map_or(0, |s| s.header.segment.0));
    let Search {
        next, damage, torn, ..
    } = search;
    let recovered = Recovered {
        last: Lsn(next.0 - 1),
        segments: segments.iter().filter(|s| !s.is_empty()).count(),
        bytes: segments.iter().map(|s| s.bytes).sum(),
        damage,
        torn,
    };
    let Recovered { last, bytes, .. } = recovered;
    info!(folder = %folder.display(), segments = recovered.segments, bytes, %last, "log open");
    Ok(Found {
        segments,
        next,
        number: SegmentNumber(files.keys().next_back().map_or(1, |newest| newest.0 + 1)),
        recovered,
    })
}

/// Lists the segments' files, and removes what a cut left that did not finish.
fn list(disk: &dyn Disk, folder: &Path) -> Result<BTreeMap<SegmentNumber, PathBuf>, Error> {
    let mut files = BTreeMap::new();
    for path in disk.list(folder).map_err(at(folder))? {
        if let Some(number) = SegmentNumber::of(&path) {
            files.insert(number, path);
        } else if path.to_str().is_some_and(|name| name.ends_with(PARTIAL)) {
            disk.change(Change::RemoveFile(&path)).map_err(at(&path))?;
        }
    }
    Ok(files)
}

fn head(disk: &dyn Disk, path: &Path) -> Result<Head, Error> {
    let file = disk.open(path).map_err(at(path))?;
    match Scan::begin(file, path) {
        Ok(scan) => Ok(Head::Whole(*scan.header())),
        Err(CommonError::Format(error @ FormatError::Damaged { .. })) => {
            let file = disk.open(path).map_err(at(path))?;
            let bytes = sweep(file, 0, Lsn(0)).map_err(at(path))?.bytes;
            // A header is on the disk before anything follows it.
            Ok(if bytes <= SegmentHeader::BYTES {
                Head::Torn(error)
            } else {
                Head::Damaged(error)
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// The search for what is whole.
struct Search<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    files: &'a BTreeMap<SegmentNumber, PathBuf>,
    /// Above every lsn seen so far.
    next: Lsn,
    damage: Option<FormatError>,
    torn: Option<FormatError>,
}

impl Search<'_> {
    /// Follows the headers back from the newest one, and gives the chain from the oldest on.
    ///
    /// Where it is broken, the part above is dropped and the search goes on below: the first break
    /// in the order of the log counts.
    fn chain(&mut self, mut heads: BTreeMap<SegmentNumber, Head>) -> Vec<SegmentHeader> {
        let mut chain: Vec<SegmentHeader> = Vec::new();
        // The segment before the last one of `chain`; without one, the newest that is left.
        let mut named: Option<SegmentNumber> = None;
        while let Some(number) = named.or_else(|| heads.keys().next_back().copied()) {
            match heads.remove(&number) {
                Some(Head::Whole(header)) => {
                    chain.push(header);
                    let Some(previous) = header.previous else {
                        break;
                    };
                    named = Some(previous.segment);
                    continue;
                }
                // It was under way in some life, and nothing follows it.
                Some(Head::Torn(error)) if named.is_none() => self.is_torn(error),
                Some(Head::Torn(error) | Head::Damaged(error)) => {
                    self.is_damaged(error);
                    chain.clear();
                }
                // All before it was cut: the oldest goes first, so nothing older is there.
                None if heads.range(..number).next().is_none() => break,
                None => {
                    let path = self.path(number);
                    self.is_damaged(FormatError::MissingSegment { path });
                    chain.clear();
                }
            }
            heads.split_off(&number);
            named = None;
        }
        chain.reverse();
        chain
    }

    /// Reads the chain up to the first thing that is not whole.
    fn check(&mut self, chain: &[SegmentHeader]) -> Result<Vec<Segment>, Error> {
        let mut segments = Vec::new();
        for (i, header) in chain.iter().enumerate() {
            let path = self.path(header.segment);
            if header.first < self.next {
                self.is_damaged(FormatError::Damaged {
                    path,
                    offset: 0,
                    what: "the segment's first lsn is not above those before it",
                });
                break;
            }
            self.next = header.first;
            let mut segment = Segment::new(*header);
            let sealed = chain.get(i + 1).and_then(|next| next.previous);
            let whole = header.cut || self.groups(&mut segment, &path, sealed.map(|s| s.bytes))?;
            segments.push(segment);
            if !whole {
                break;
            }
        }
        Ok(segments)
    }

    /// Reads a segment's groups; false when they end before the segment did.
    fn groups(
        &mut self,
        segment: &mut Segment,
        path: &Path,
        until: Option<u64>,
    ) -> Result<bool, Error> {
        let mut scan = Scan::begin(self.disk.open(path).map_err(at(path))?, path)?;
        loop {
            let group = match scan.group(until) {
                Ok(Some(group)) => group,
                Ok(None) => return Ok(true),
                Err(CommonError::Format(error @ FormatError::Damaged { .. })) => {
                    let file = self.disk.open(path).map_err(at(path))?;
                    let behind = sweep(file, scan.end(), scan.next()).map_err(at(path))?.next;
                    self.next = behind.unwrap_or(self.next).max(self.next);
                    // A group is begun when the one before it is on the disk: what is followed by
                    // another was whole once.
                    if until.is_some() || behind.is_some() {
                        self.is_damaged(error);
                    } else {
                        self.is_torn(error);
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            };
            for entry in group.entries() {
                let entry = entry.map_err(CommonError::from)?;
                segment.last.insert((entry.job, entry.shard), entry.lsn);
            }
            segment.bytes = scan.end();
            self.next = scan.next();
        }
    }

    /// Looks for higher lsns in what is ignored, so that none is given twice.
    fn look_behind(&mut self, last: u64) {
        for path in self
            .files
            .range(SegmentNumber(last + 1)..)
            .map(|(_, path)| path)
        {
            let Ok(file) = self.disk.open(path) else {
                continue;
            };
            if let Ok(mut scan) = Scan::begin(file, path) {
                while let Ok(Some(_)) = scan.group(None) {}
                self.next = self.next.max(scan.next());
            }
        }
    }

    fn path(&self, number: SegmentNumber) -> PathBuf {
        self.folder.join(number.file_name())
    }

    fn is_torn(&mut self, error: FormatError) {
        warn!(reason = %error, "log torn: a crash ended a write, nothing of it was acknowledged");
        self.torn = Some(error);
    }

    fn is_damaged(&mut self, error: FormatError) {
        error!(reason = %error, "log damaged: later records are ignored, their pushes come again");
        self.damage = Some(error);
    }
}
